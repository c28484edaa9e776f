"""``perfci compare --files A B``: two recorded runs, judged without measuring anything."""

from __future__ import annotations

from pathlib import Path

import click

from perfci.cli.compare.variants import Asked, with_goals
from perfci.cli.shared.context import config_here, write_json
from perfci.measure.check_goals import compared_of, goals_of, judged, require_metrics_of
from perfci.measure.compare_files import FileComparison, compare_files
from perfci.model import VerdictKind
from perfci.policies import policy_of
from perfci.report.goal_text import goals_text
from perfci.report.pulls.comparison_findings import Findings, bars_of
from perfci.report.pulls.pull_comment import comment
from perfci.report.text_tables import comparison_text
from perfci.verdicts.goals.goal_verdict import GoalVerdict
from perfci.verdicts.policy import Policy


def files(base: Path, head: Path, asked: Asked) -> int:
    """Judge the second file against the first."""
    config = config_here()
    goals, policy = goals_of(config), policy_of(config, strict=asked.strict)
    found = compare_files(base, head, policy, lambda line: click.echo(line, err=True))
    require_metrics_of(goals, found.sides)
    held = judged(goals, compared_of(found.sides, found.verdicts), policy)
    report(found, held, policy, (base, head), asked)
    return exit_code(found, held, strict=asked.strict)


def report(
    found: FileComparison, goals: list[GoalVerdict], policy: Policy, paths: tuple[Path, Path], asked: Asked
) -> None:
    if asked.json_file:
        values = {"base": found.base, "head": found.head, "files": paths, "verdicts": found.verdicts, "goals": goals}
        write_json(asked.json_file, values)
    if asked.markdown:
        sides = f"{paths[0].name} → {paths[1].name}"
        told = Findings(
            found.verdicts, found.base, found.head, sides=sides, manner="recorded", goals=goals,
            bars=bars_of(found.verdicts, policy), strict=policy.default.strict,
            command=("perfci", "compare", "--files", *map(str, paths)),
        )  # fmt: skip
        asked.markdown.write_text(comment(told), encoding="utf-8")
    if asked.json_file != "-":
        names = zip(("base", "head"), paths, (found.base, found.head), strict=True)
        click.echo("\n".join(f"{side} {path}: {one.short} {one.subject}".rstrip() for side, path, one in names) + "\n")
        click.echo("\n".join(part for part in (comparison_text(found.verdicts), goals_text(goals)) if part))


def exit_code(found: FileComparison, goals: list[GoalVerdict], *, strict: bool) -> int:
    kinds = {verdict.kind for verdict in found.verdicts}
    if kinds <= {VerdictKind.MISSING}:
        return 4
    if kinds & {VerdictKind.REGRESSION, VerdictKind.FAILED}:
        return 1
    undecided = bool(kinds & {VerdictKind.INCONCLUSIVE, VerdictKind.NOT_COMPARABLE})
    return with_goals(3 if strict and undecided else 0, goals, strict=strict)
