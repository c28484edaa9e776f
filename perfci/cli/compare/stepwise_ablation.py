"""``perfci compare --ablation``: the steps of an ablation in perfci.toml, each by its own gain."""

from __future__ import annotations

from collections.abc import Sequence
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
from perfci.measure.judge_goals import judge_ablation_goals, parse_goals
from perfci.measure.judge_goals import require_known_metrics as require_goals
from perfci.measure.measure_ablation_steps import (
    AblationResult,
    expand_step_assignments,
    find_ablation_table,
    measure_ablation_steps,
    select_ablation_cells,
)
from perfci.measure.open_measurement_session import create_suite_runner, prepare_session_scope
from perfci.measure.store_variant_results import store_ablations
from perfci.measure.variant_groups import group_variants, validate_variant_assignments
from perfci.measure.variant_tradeoffs import find_ablation_tradeoffs
from perfci.report.ablation_text import format_ablation, render_ablations_markdown
from perfci.report.goal_text import format_goals, render_goals_markdown, tradeoff_sentence
from perfci.service.pulls.results_artifact_files import write_run_documents
from perfci.verdicts.goals.goal_verdict import GoalVerdict


def compare_ablation(name: str, at: str, options: ComparisonOptions, results: Path | None = None) -> int:
    """Measure the steps of one ablation in the same rounds, and return the exit code."""
    repository = current_repository()
    config = load_repository_config(repository)
    goals, table = parse_goals(config), find_ablation_table(config, name)
    steps = expand_step_assignments(table)
    commit = resolve_commit_or_worktree(repository, at)
    progress = TerminalProgress()
    with create_suite_runner(repository, config, options.suite, smoke=options.smoke) as runner:
        subject = prepare_session_scope(runner, [commit], options.bench, progress.report)
        cells = select_ablation_cells(subject, table)
        validate_variant_assignments(cells, steps, f"the ablation {name!r}")
        require_goals(goals, subject.discovery, progress.report)
        verb = "perfci compare --ablation"
        with lock_machine_and_open_store(config, verb, progress, no_wait=options.no_wait) as store:
            ablation = measure_ablation_steps(
                store,
                runner,
                config,
                subject,
                commit,
                table,
                group_variants(cells, steps),
                progress,
                goals=goals,
                budget_s=options.budget_s,
            )
            goal_verdicts = judge_ablation_goals(goals, ablation)
            store_ablations(store, config.project, ablation, name, goal_verdicts)
            if results:
                write_run_documents(results, store, [ablation.session])
    write_ablation_report(ablation, goal_verdicts, options)
    return ablation_exit_code(ablation, goal_verdicts, strict=options.strict)


def write_ablation_report(
    ablation: AblationResult, goals: Sequence[GoalVerdict], options: ComparisonOptions
) -> None:
    """Write the result as JSON, Markdown and text, as far as the options ask for it."""
    policy = ablation.variant_session.policy
    if options.json_file:
        fields = {
            "commit": ablation.commit,
            "session": ablation.session,
            "ablations": ablation.ablations,
            "numerics": ablation.numerics,
            "goals": goals,
        }
        write_json(options.json_file, fields)
    if options.markdown:
        text = render_ablations_markdown(ablation.ablations, policy)
        options.markdown.write_text("\n".join(part for part in (text, render_goals_markdown(goals)) if part))
    if options.json_file != "-":
        click.echo(f"commit {ablation.commit.short_sha} {ablation.commit.subject}\n")
        parts = [format_ablation(result, policy) for result in ablation.ablations]
        if not any(goal.trades for goal in goals):  # such a goal prints its trades itself
            parts += [f"⇄ {tradeoff_sentence(trade)}\n" for trade in find_ablation_tradeoffs(ablation)]
        click.echo("\n".join(part for part in (*parts, format_goals(goals)) if part))


def ablation_exit_code(ablation: AblationResult, goals: Sequence[GoalVerdict], *, strict: bool) -> int:
    """The exit code of an ablation: a rejected step fails it, a slower one does not."""
    steps = [step for result in ablation.ablations for step in result.steps]
    kinds = {verdict.kind for step in steps for verdict in step.verdicts}
    is_rejected = any(step.rejection_reason for step in steps)
    return comparison_exit_code(
        ablation.statuses, kinds, goals, strict=strict, failures=(), is_rejected=is_rejected
    )
