"""``perfci compare BASE [HEAD]``: measure two commits in interleaved pairs, and judge every benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import click

from perfci.cli.compare.options_and_exit_code import WORSE, ComparisonOptions, comparison_exit_code
from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.repository_and_config import current_repository, load_repository_config
from perfci.cli.shared.store_and_machine_lock import lock_machine_and_open_store, open_store_to_read
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.config import Config
from perfci.measure.compare_commits import CommitComparison, measure_commit_comparison
from perfci.measure.judge_goals import judge_commit_goals, parse_goals, require_known_metrics
from perfci.measure.open_measurement_session import (
    create_suite_runner,
    prepare_session_scope,
    replace_declared_with_measured_costs,
)
from perfci.measure.store_variant_results import store_commit_goals
from perfci.measure.stored_quantile_curves import estimate_stored_quantile_curves
from perfci.model import Commit, Status
from perfci.project_policies import build_policy
from perfci.report.goal_text import format_goals
from perfci.report.pooled_verdict_text import format_pooled_verdict
from perfci.report.pulls.comparison_findings import IDENTICAL_INPUTS_NOTE, Findings, compute_verdict_bars
from perfci.report.pulls.pull_comment import render_pull_comment
from perfci.report.quantile_shift_text import format_quantile_shifts
from perfci.report.verdict_table import format_comparison
from perfci.runner.git_repository import GitRepository
from perfci.service.incidents.reconcile_incidents import evaluate_and_reconcile
from perfci.service.pulls.results_artifact_files import write_run_documents
from perfci.verdicts.compare.quantile_shift_curve import QuantileShiftCurve
from perfci.verdicts.goals.goal_verdict import GoalVerdict
from perfci.verdicts.judging_policy import Policy


def compare_commits(base: str, head: str, options: ComparisonOptions, results: Path | None) -> int:
    """Compare two commits, and return the exit code."""
    repository = current_repository()
    config = load_repository_config(repository)
    before = repository.read_commit(repository.resolve_revision(base))
    after = (
        repository.read_commit(repository.resolve_revision(head))
        if head
        else repository.snapshot_working_tree()
    )
    findings, comparison = measure_and_judge_commits(repository, config, before, after, options)
    curves = None
    if options.quantiles:
        with closing(open_store_to_read(config)) as store:
            curves = estimate_stored_quantile_curves(store, findings.verdicts)
    write_commits_report(findings, options, curves)
    if results:
        with closing(open_store_to_read(config)) as store:
            write_run_documents(results, store, comparison.session_uids)
    return commits_exit_code(findings, comparison.statuses, strict=options.strict)


def measure_and_judge_commits(
    repository: GitRepository, config: Config, before: Commit, after: Commit, options: ComparisonOptions
) -> tuple[Findings, CommitComparison]:
    """Measure and judge two commits: the findings, and the measurements they rest on."""
    goals, policy = parse_goals(config), build_policy(config.settings, strict=options.strict)
    progress = TerminalProgress()
    with create_suite_runner(repository, config, options.suite, smoke=options.smoke) as runner:
        commits = list({commit.sha: commit for commit in (before, after)}.values())
        subject = prepare_session_scope(
            runner, commits, options.bench, progress.report, default_only=options.default_only
        )
        require_known_metrics(goals, subject.discovery, progress.report)
        with lock_machine_and_open_store(
            config, "perfci compare", progress, no_wait=options.no_wait
        ) as store:
            subject = replace_declared_with_measured_costs(store, runner, config.project, subject)
            comparison = measure_commit_comparison(
                store,
                runner,
                config,
                subject,
                before,
                after,
                progress,
                strict=options.strict,
                budget_s=options.budget_s,
            )
            evaluate_and_reconcile(store, config)
            goal_verdicts = judge_commit_goals(goals, comparison, store, policy) if goals else []
            store_commit_goals(store, config.project, comparison, goal_verdicts)
    return build_commits_findings(comparison, goal_verdicts, policy, options), comparison


def write_commits_report(
    findings: Findings,
    options: ComparisonOptions,
    curves: Sequence[QuantileShiftCurve] | None = None,
) -> None:
    """Write the findings as JSON, Markdown and text, as far as the options ask for it."""
    if options.json_file:
        names = ("base", "head", "verdicts", "pooled", "goals", "identical_inputs")
        shifts = {} if curves is None else {"quantile_shifts": curves}
        write_json(options.json_file, {name: getattr(findings, name) for name in names} | shifts)
    if options.markdown:
        options.markdown.write_text(render_pull_comment(findings), encoding="utf-8")
    if options.json_file != "-":
        click.echo(f"base {findings.base.short_sha} {findings.base.subject}")
        click.echo(f"head {findings.head.short_sha} {findings.head.subject}\n")
        pooled = format_pooled_verdict(findings.pooled) if findings.pooled else ""
        note = IDENTICAL_INPUTS_NOTE if findings.identical_inputs else ""
        table = format_comparison(findings.verdict_groups)
        quantiles = "" if curves is None else format_quantile_shifts(curves)
        parts = (table, quantiles, pooled, format_goals(findings.goals), note)
        click.echo("\n".join(part for part in parts if part))


def build_commits_findings(
    comparison: CommitComparison, goals: Sequence[GoalVerdict], policy: Policy, options: ComparisonOptions
) -> Findings:
    """The comparison as the findings that every report is written from."""
    spent_budget = ""
    if comparison.hit_deadline and options.budget_s is not None:
        spent_budget = f"{options.budget_s / 60:.3g} min"
    return Findings(
        comparison.verdicts,
        comparison.base,
        comparison.head,
        measurement_order="in turns" if comparison.in_turns else "interleaved",
        pooled=comparison.pooled,
        goals=goals,
        environment_changes=comparison.environment,
        spent_budget=spent_budget,
        bars=compute_verdict_bars(comparison.verdicts, policy),
        strict=policy.default.strict,
        smoke=options.smoke,
        identical_inputs=comparison.identical_inputs and comparison.base.sha != comparison.head.sha,
    )


def commits_exit_code(findings: Findings, statuses: Sequence[Status], *, strict: bool) -> int:
    """The exit code of a comparison of commits: those with identical inputs cannot fail, their goals can."""
    kinds = {verdict.kind for verdict in findings.primary_verdicts}
    failures = () if findings.identical_inputs else WORSE
    return comparison_exit_code(statuses, kinds, findings.goals, strict=strict, failures=failures)
