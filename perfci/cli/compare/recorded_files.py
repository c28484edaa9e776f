"""``perfci compare --files A B``: judge two recorded runs; nothing is measured."""

from __future__ import annotations

from pathlib import Path

import click

from perfci.cli.compare.options_and_exit_code import ComparisonOptions, comparison_exit_code
from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.repository_and_config import current_config
from perfci.measure.compare_recorded_files import FileComparison, compare_files
from perfci.measure.judge_goals import build_goal_inputs, judge_goals, parse_goals, require_recorded_metrics
from perfci.model import VerdictKind
from perfci.project_policies import build_policy
from perfci.report.goal_text import format_goals
from perfci.report.pulls.comparison_findings import Findings, compute_verdict_bars
from perfci.report.pulls.pull_comment import render_pull_comment
from perfci.report.verdict_groups import group_verdicts
from perfci.report.verdict_table import format_comparison
from perfci.verdicts.goals.goal_verdict import GoalVerdict
from perfci.verdicts.judging_policy import Policy


def compare_recorded_files(base: Path, head: Path, options: ComparisonOptions) -> int:
    """Judge the second file against the first, and return the exit code."""
    config = current_config()
    goals, policy = parse_goals(config), build_policy(config.settings, strict=options.strict)
    comparison = compare_files(base, head, policy, lambda line: click.echo(line, err=True))
    require_recorded_metrics(goals, comparison.sides)
    goal_verdicts = judge_goals(goals, build_goal_inputs(comparison.sides, comparison.verdicts), policy)
    write_recorded_files_report(comparison, goal_verdicts, policy, (base, head), options)
    return recorded_files_exit_code(comparison, goal_verdicts, policy, strict=options.strict)


def write_recorded_files_report(
    comparison: FileComparison,
    goals: list[GoalVerdict],
    policy: Policy,
    paths: tuple[Path, Path],
    options: ComparisonOptions,
) -> None:
    """Write the result as JSON, Markdown and text, as far as the options ask for it."""
    if options.json_file:
        fields = {
            "base": comparison.base,
            "head": comparison.head,
            "files": paths,
            "verdicts": comparison.verdicts,
            "goals": goals,
        }
        write_json(options.json_file, fields)
    if options.markdown:
        sides = f"{paths[0].name} → {paths[1].name}"
        findings = Findings(
            comparison.verdicts,
            comparison.base,
            comparison.head,
            sides_label=sides,
            measurement_order="recorded",
            goals=goals,
            bars=compute_verdict_bars(comparison.verdicts, policy),
            strict=policy.default.strict,
            reproduce_command=("perfci", "compare", "--files", *map(str, paths)),
        )
        options.markdown.write_text(render_pull_comment(findings), encoding="utf-8")
    if options.json_file != "-":
        commits = (comparison.base, comparison.head)
        for side, path, commit in zip(("base", "head"), paths, commits, strict=True):
            click.echo(f"{side} {path}: {commit.short_sha} {commit.subject}".rstrip())
        groups = group_verdicts(comparison.verdicts, policy.gates)
        parts = (format_comparison(groups), format_goals(goals))
        click.echo("\n" + "\n".join(part for part in parts if part))


def recorded_files_exit_code(
    comparison: FileComparison, goals: list[GoalVerdict], policy: Policy, *, strict: bool
) -> int:
    """The exit code of a comparison of files: 4 where they have no series in common."""
    if all(verdict.kind is VerdictKind.MISSING for verdict in comparison.verdicts):
        return 4
    groups = group_verdicts(comparison.verdicts, policy.gates)
    kinds = {group.primary.kind for group in groups if group.gates}
    return comparison_exit_code(None, kinds, goals, strict=strict)
