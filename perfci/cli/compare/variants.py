"""``perfci compare --vary``: variants of one commit, each against the first."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import click

from perfci.cli.shared.context import (
    current_repository,
    load_repository_config,
    open_store_to_write,
    write_json,
)
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.measure.check_goals import find_variant_trades, judge_variant_goals, parse_goals
from perfci.measure.check_goals import require_known_metrics as require_goals
from perfci.measure.compare_variants import VariantComparison, run_variants
from perfci.measure.open_session import open_workbench, prepare_scope
from perfci.measure.variant_groups import (
    VariantAxis,
    build_assignments,
    group_variants,
    require_known_parameters,
)
from perfci.model import Commit, Status, VerdictKind
from perfci.report.goal_text import format_goals
from perfci.report.pulls.comparison_findings import Findings, compute_bars
from perfci.report.pulls.pull_comment import render_comment
from perfci.report.variant_text import format_variants
from perfci.runner.git_repository import GitRepository
from perfci.runner.locks import machine_lock
from perfci.verdicts.goals.goal_verdict import GoalOutcome, GoalVerdict


@dataclass(frozen=True, slots=True)
class ComparisonOptions:
    """The options that every kind of comparison takes."""

    suite: Path | None
    bench: str
    smoke: bool
    budget_s: float | None
    strict: bool
    no_wait: bool
    markdown: Path | None
    json_file: str | None


def compare_variants(axis_texts: tuple[str, ...], at: str, options: ComparisonOptions) -> int:
    """Compare the variants that ``--vary`` names."""
    axes = [VariantAxis.parse(text) for text in axis_texts]
    assignments = build_assignments(axes)
    repository = current_repository()
    config = load_repository_config(repository)
    goals = parse_goals(config)
    commit = resolve_commit(repository, at)
    progress = TerminalProgress()
    with open_workbench(repository, config, options.suite, smoke=options.smoke) as workbench:
        subject = prepare_scope(workbench, [commit], options.bench, progress.report)
        require_known_parameters(subject.cells, assignments, f"--vary {' '.join(axis_texts)}")
        require_goals(goals, subject.discovery, progress.report)
        groups = group_variants(subject.cells, assignments)
        owner = f"perfci compare --vary in {config.root}"
        with (
            machine_lock(config.lock_path, owner=owner, wait=not options.no_wait, on_wait=progress.report),
            closing(open_store_to_write(config)) as store,
        ):
            found = run_variants(
                store,
                workbench,
                config,
                subject,
                commit,
                groups,
                progress,
                goals=goals,
                strict=options.strict,
                budget_s=options.budget_s,
            )
    judged = judge_variant_goals(goals, found, assignments)
    write_report(found, judged, axis_texts, options)
    return exit_code(found, judged, strict=options.strict)


def resolve_commit(repository: GitRepository, revision: str) -> Commit:
    return repository.commit(repository.resolve(revision)) if revision else repository.working_tree_commit()


def write_report(
    comparison: VariantComparison,
    goals: list[GoalVerdict],
    axis_texts: tuple[str, ...],
    options: ComparisonOptions,
) -> None:
    if options.json_file:
        told = {
            "commit": comparison.commit,
            "session": comparison.session,
            "verdicts": comparison.variants.contrasts,
        }
        told |= {
            "rejected": comparison.variants.rejections,
            "numerics": comparison.variants.numerics,
            "goals": goals,
        }
        write_json(options.json_file, told)
    if options.markdown:
        options.markdown.write_text(
            render_comment(build_findings(comparison, goals, axis_texts, smoke=options.smoke)),
            encoding="utf-8",
        )
    if options.json_file != "-":
        click.echo(
            f"commit {comparison.commit.short_sha} {comparison.commit.subject}\nvary {'  '.join(axis_texts)}\n"
        )
        told_already = any(goal.trades for goal in goals)
        text = format_variants(comparison.variants, () if told_already else find_variant_trades(comparison))
        click.echo("\n".join(part for part in (text, format_goals(goals)) if part))


def build_findings(
    comparison: VariantComparison, goals: list[GoalVerdict], axis_texts: tuple[str, ...], *, smoke: bool
) -> Findings:
    told, policy = (
        [contrast.labelled_verdict for contrast in comparison.variants.contrasts],
        comparison.variant_session.policy,
    )
    return Findings(
        told,
        comparison.commit,
        comparison.commit,
        sides_label=f"{comparison.commit.short_sha}: {' '.join(axis_texts)}",
        measurement_order="interleaved",
        goals=goals,
        rejections=comparison.variants.rejections,
        bars=compute_bars(told, policy),
        strict=policy.default.strict,
        smoke=smoke,
        reproduce_command=_repeat_command(comparison.commit, axis_texts),
    )


def _repeat_command(commit: Commit, axis_texts: tuple[str, ...]) -> list[str]:
    axes = [word for text in axis_texts for word in ("--vary", text)]
    return ["perfci", "compare", *axes, *([] if commit.dirty else ["--at", commit.short_sha])]


def exit_code(comparison: VariantComparison, goals: list[GoalVerdict], *, strict: bool) -> int:
    if not any(status is Status.OK for status in comparison.statuses):
        return 4
    kinds = {contrast.verdict.kind for contrast in comparison.variants.contrasts}
    worse = bool(comparison.variants.rejections) or bool(kinds & {VerdictKind.REGRESSION, VerdictKind.FAILED})
    undecided = bool(kinds & {VerdictKind.INCONCLUSIVE, VerdictKind.NOT_COMPARABLE})
    return exit_code_with_goals(1 if worse else 3 if strict and undecided else 0, goals, strict=strict)


def exit_code_with_goals(comparison_code: int, goals: Sequence[GoalVerdict], *, strict: bool) -> int:
    """The exit code of a comparison that goals were judged on: a broken one counts like a regression."""
    outcomes = {goal.outcome for goal in goals}
    if comparison_code in (1, 4):
        return comparison_code
    if outcomes & {GoalOutcome.BROKEN, GoalOutcome.REJECTED}:
        return 1
    return 3 if strict and GoalOutcome.UNDECIDED in outcomes else comparison_code
