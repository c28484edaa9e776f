"""``perfci compare --vary``: variants of one commit, each against the first."""

from __future__ import annotations

from pathlib import Path

import click

from perfci.cli.compare.options_and_exit_code import ComparisonOptions, comparison_exit_code
from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.repository_and_config import (
    current_repository,
    load_repository_config,
    resolve_commit_or_worktree,
)
from perfci.cli.shared.store_and_machine_lock import lock_machine_and_open_store
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.measure.compare_variants import VariantComparison, measure_variant_comparison
from perfci.measure.judge_goals import judge_variant_goals, parse_goals
from perfci.measure.judge_goals import require_known_metrics as require_goals
from perfci.measure.open_measurement_session import create_suite_runner, prepare_session_scope
from perfci.measure.store_variant_results import store_variant_comparison
from perfci.measure.variant_groups import (
    VariantAxis,
    build_assignments,
    group_variants,
    validate_variant_assignments,
)
from perfci.measure.variant_tradeoffs import find_variant_tradeoffs
from perfci.report.goal_text import format_goals
from perfci.report.pulls.comparison_findings import Findings, compute_verdict_bars
from perfci.report.pulls.pull_comment import render_pull_comment
from perfci.report.variant_text import build_contrast_verdict, format_variants
from perfci.report.verdict_groups import group_verdicts
from perfci.service.pulls.results_artifact_files import write_run_documents
from perfci.verdicts.goals.goal_verdict import GoalVerdict


def compare_variants(
    axis_texts: tuple[str, ...], at: str, options: ComparisonOptions, results: Path | None = None
) -> int:
    """Compare the variants that ``--vary`` names, and return the exit code."""
    axes = [VariantAxis.parse(text) for text in axis_texts]
    assignments = build_assignments(axes)
    repository = current_repository()
    config = load_repository_config(repository)
    goals = parse_goals(config)
    commit = resolve_commit_or_worktree(repository, at)
    progress = TerminalProgress()
    with create_suite_runner(repository, config, options.suite, smoke=options.smoke) as runner:
        subject = prepare_session_scope(runner, [commit], options.bench, progress.report)
        validate_variant_assignments(subject.cells, assignments, f"--vary {' '.join(axis_texts)}")
        require_goals(goals, subject.discovery, progress.report)
        groups = group_variants(subject.cells, assignments)
        verb = "perfci compare --vary"
        with lock_machine_and_open_store(config, verb, progress, no_wait=options.no_wait) as store:
            comparison = measure_variant_comparison(
                store,
                runner,
                config,
                subject,
                commit,
                groups,
                progress,
                goals=goals,
                strict=options.strict,
                budget_s=options.budget_s,
            )
            goal_verdicts = judge_variant_goals(goals, comparison, assignments)
            varied = " ".join(axis_texts)
            store_variant_comparison(store, config.project, comparison, varied, goal_verdicts)
            if results:
                write_run_documents(results, store, [comparison.session])
    write_variants_report(comparison, goal_verdicts, axis_texts, options)
    return variants_exit_code(comparison, goal_verdicts, strict=options.strict)


def write_variants_report(
    comparison: VariantComparison,
    goals: list[GoalVerdict],
    axis_texts: tuple[str, ...],
    options: ComparisonOptions,
) -> None:
    """Write the result as JSON, Markdown and text, as far as the options ask for it."""
    if options.json_file:
        fields = {
            "commit": comparison.commit,
            "session": comparison.session,
            "verdicts": comparison.variants.contrasts,
            "rejected": comparison.variants.rejections,
            "numerics": comparison.variants.numerics,
            "goals": goals,
        }
        write_json(options.json_file, fields)
    if options.markdown:
        findings = build_variants_findings(comparison, goals, axis_texts, smoke=options.smoke)
        options.markdown.write_text(render_pull_comment(findings), encoding="utf-8")
    if options.json_file != "-":
        click.echo(f"commit {comparison.commit.short_sha} {comparison.commit.subject}")
        click.echo(f"vary {'  '.join(axis_texts)}\n")
        # a goal that trades one metric for another prints its trades itself
        trades = () if any(goal.trades for goal in goals) else find_variant_tradeoffs(comparison)
        text = format_variants(comparison.variants, trades)
        click.echo("\n".join(part for part in (text, format_goals(goals)) if part))


def build_variants_findings(
    comparison: VariantComparison, goals: list[GoalVerdict], axis_texts: tuple[str, ...], *, smoke: bool
) -> Findings:
    """The comparison as findings, whose verdicts carry the variant in their label."""
    verdicts = [build_contrast_verdict(contrast) for contrast in comparison.variants.contrasts]
    policy = comparison.variant_session.policy
    commit = comparison.commit
    reproduce = ["perfci", "compare"]
    for text in axis_texts:
        reproduce += ["--vary", text]
    if not commit.dirty:
        reproduce += ["--at", commit.short_sha]
    return Findings(
        verdicts,
        commit,
        commit,
        sides_label=f"{commit.short_sha}: {' '.join(axis_texts)}",
        measurement_order="interleaved",
        goals=goals,
        rejections=comparison.variants.rejections,
        bars=compute_verdict_bars(verdicts, policy),
        strict=policy.default.strict,
        smoke=smoke,
        reproduce_command=reproduce,
    )


def variants_exit_code(comparison: VariantComparison, goals: list[GoalVerdict], *, strict: bool) -> int:
    """The exit code of a comparison of variants; a rejected variant counts like a regression."""
    verdicts = [contrast.verdict for contrast in comparison.variants.contrasts]
    groups = group_verdicts(verdicts, comparison.variant_session.policy.is_gating)
    kinds = {group.primary.kind for group in groups if group.gates}
    return comparison_exit_code(
        comparison.statuses, kinds, goals, strict=strict, is_rejected=bool(comparison.variants.rejections)
    )
