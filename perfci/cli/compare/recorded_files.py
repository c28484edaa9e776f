"""``perfci compare --files A B``: judge two recorded runs; nothing is measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from perfci.cli.compare.options_and_exit_code import ComparisonOptions, comparison_exit_code
from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.repository_and_config import current_config
from perfci.formats.format_types import WarnOnce
from perfci.measure.compare_recorded_files import FileComparison, compare_files
from perfci.measure.judge_goals import (
    join_processes_with_verdicts,
    judge_goals,
    parse_goals,
    require_recorded_metrics,
)
from perfci.model import VerdictKind
from perfci.project_policies import build_policy
from perfci.report.goal_text import format_goals
from perfci.report.pulls.comparison_findings import Findings, compute_verdict_bars
from perfci.report.pulls.pull_comment import render_pull_comment
from perfci.report.verdict_groups import group_verdicts
from perfci.report.verdict_table import format_comparison
from perfci.verdicts.goals.goal_verdict import GoalVerdict
from perfci.verdicts.judging_policy import Policy


def compare_recorded_files(pairs: Sequence[tuple[Path, Path]], options: ComparisonOptions) -> int:
    """Judge the second file of each pair against the first ones, and return the exit code."""
    config = current_config()
    goals, policy = parse_goals(config), build_policy(config.settings, strict=options.strict)
    base, head = ([pair[side] for pair in pairs] for side in (0, 1))
    comparison = compare_files(base, head, policy, WarnOnce(lambda line: click.echo(line, err=True)))
    require_recorded_metrics(goals, comparison.sides)
    goal_verdicts = judge_goals(
        goals, join_processes_with_verdicts(comparison.sides, comparison.verdicts), policy
    )
    write_recorded_files_report(comparison, goal_verdicts, policy, (base, head), options)
    return recorded_files_exit_code(comparison, goal_verdicts, policy, strict=options.strict)


def write_recorded_files_report(
    comparison: FileComparison,
    goals: list[GoalVerdict],
    policy: Policy,
    paths: tuple[list[Path], list[Path]],
    options: ComparisonOptions,
) -> None:
    """Write the result as JSON, Markdown and text, as far as the options ask for it."""
    if options.json_file:
        fields = {
            "base": comparison.base,
            "head": comparison.head,
            "files": [", ".join(map(str, side)) for side in paths],
            "verdicts": comparison.verdicts,
            "goals": goals,
        }
        write_json(options.json_file, fields)
    if options.markdown:
        sides = " → ".join(", ".join(path.name for path in side) for side in paths)
        findings = Findings(
            comparison.verdicts,
            comparison.base,
            comparison.head,
            sides_label=sides,
            measurement_order="recorded",
            goals=goals,
            bars=compute_verdict_bars(comparison.verdicts, policy),
            strict=policy.default.strict,
            reproduce_command=("perfci", "compare", *_format_pairs(paths)),
        )
        options.markdown.write_text(render_pull_comment(findings), encoding="utf-8")
    if options.json_file != "-":
        commits = (comparison.base, comparison.head)
        for side, files, commit in zip(("base", "head"), paths, commits, strict=True):
            names = ", ".join(map(str, files))
            click.echo(f"{side} {names}: {commit.short_sha} {commit.subject}".rstrip())
        groups = group_verdicts(comparison.verdicts, policy.is_gating)
        parts = (format_comparison(groups), format_goals(goals))
        click.echo("\n" + "\n".join(part for part in parts if part))


def _format_pairs(paths: tuple[list[Path], list[Path]]) -> list[str]:
    return [word for pair in zip(*paths, strict=True) for word in ("--files", *map(str, pair))]


def recorded_files_exit_code(
    comparison: FileComparison, goals: list[GoalVerdict], policy: Policy, *, strict: bool
) -> int:
    """The exit code of a comparison of files: 4 where they have no series in common."""
    if all(verdict.kind is VerdictKind.MISSING for verdict in comparison.verdicts):
        return 4
    groups = group_verdicts(comparison.verdicts, policy.is_gating)
    kinds = {group.primary.kind for group in groups if group.gates}
    return comparison_exit_code(None, kinds, goals, strict=strict)
