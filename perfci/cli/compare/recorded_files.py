"""``perfci compare --files A B``: two recorded runs, judged without measuring anything."""

from __future__ import annotations

from pathlib import Path

import click

from perfci.cli.compare.variants import ComparisonOptions, exit_code_with_goals
from perfci.cli.shared.context import current_config, write_json
from perfci.measure.check_goals import build_goal_inputs, judge_goals, parse_goals, require_recorded_metrics
from perfci.measure.compare_files import FileComparison, compare_files
from perfci.model import VerdictKind
from perfci.policies import build_policy
from perfci.report.goal_text import format_goals
from perfci.report.pulls.comparison_findings import Findings, compute_bars
from perfci.report.pulls.pull_comment import render_comment
from perfci.report.text_tables import format_comparison
from perfci.verdicts.goals.goal_verdict import GoalVerdict
from perfci.verdicts.policy import Policy


def compare_recorded_files(base: Path, head: Path, options: ComparisonOptions) -> int:
    """Judge the second file against the first."""
    config = current_config()
    goals, policy = parse_goals(config), build_policy(config, strict=options.strict)
    found = compare_files(base, head, policy, lambda line: click.echo(line, err=True))
    require_recorded_metrics(goals, found.sides)
    held = judge_goals(goals, build_goal_inputs(found.sides, found.verdicts), policy)
    write_report(found, held, policy, (base, head), options)
    return exit_code(found, held, strict=options.strict)


def write_report(
    comparison: FileComparison,
    goals: list[GoalVerdict],
    policy: Policy,
    paths: tuple[Path, Path],
    options: ComparisonOptions,
) -> None:
    if options.json_file:
        values = {
            "base": comparison.base,
            "head": comparison.head,
            "files": paths,
            "verdicts": comparison.verdicts,
            "goals": goals,
        }
        write_json(options.json_file, values)
    if options.markdown:
        sides = f"{paths[0].name} → {paths[1].name}"
        told = Findings(
            comparison.verdicts,
            comparison.base,
            comparison.head,
            sides_label=sides,
            measurement_order="recorded",
            goals=goals,
            bars=compute_bars(comparison.verdicts, policy),
            strict=policy.default.strict,
            reproduce_command=("perfci", "compare", "--files", *map(str, paths)),
        )
        options.markdown.write_text(render_comment(told), encoding="utf-8")
    if options.json_file != "-":
        names = zip(("base", "head"), paths, (comparison.base, comparison.head), strict=True)
        click.echo(
            "\n".join(f"{side} {path}: {one.short_sha} {one.subject}".rstrip() for side, path, one in names)
            + "\n"
        )
        click.echo(
            "\n".join(part for part in (format_comparison(comparison.verdicts), format_goals(goals)) if part)
        )


def exit_code(comparison: FileComparison, goals: list[GoalVerdict], *, strict: bool) -> int:
    kinds = {verdict.kind for verdict in comparison.verdicts}
    if kinds <= {VerdictKind.MISSING}:
        return 4
    if kinds & {VerdictKind.REGRESSION, VerdictKind.FAILED}:
        return 1
    undecided = bool(kinds & {VerdictKind.INCONCLUSIVE, VerdictKind.NOT_COMPARABLE})
    return exit_code_with_goals(3 if strict and undecided else 0, goals, strict=strict)
