"""``perfci compare --ladder``: the steps of a ladder in perfci.toml, each by its own gain."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import click

from perfci.cli.compare.variants import ComparisonOptions, exit_code_with_goals, resolve_commit
from perfci.cli.shared.context import (
    current_repository,
    load_repository_config,
    open_store_to_write,
    write_json,
)
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.measure.ablation import (
    AblationResult,
    expand_steps,
    find_ablation,
    run_ablation,
    select_cells,
)
from perfci.measure.check_goals import find_ablation_trades, judge_ablation_goals, parse_goals
from perfci.measure.check_goals import require_known_metrics as require_goals
from perfci.measure.open_session import open_workbench, prepare_scope
from perfci.measure.variant_groups import group_variants, require_known_parameters
from perfci.model import Status, VerdictKind
from perfci.report.ablation_text import format_ablation, render_ablations_markdown
from perfci.report.goal_text import format_goals, render_goals_markdown, trade_sentence
from perfci.runner.locks import machine_lock
from perfci.verdicts.goals.goal_verdict import GoalVerdict


def compare_ablation(name: str, at: str, options: ComparisonOptions) -> int:
    """Measure the steps of one ladder in the same rounds."""
    repository = current_repository()
    config = load_repository_config(repository)
    goals, table = parse_goals(config), find_ablation(config, name)
    steps = expand_steps(table)
    commit = resolve_commit(repository, at)
    progress = TerminalProgress()
    with open_workbench(repository, config, options.suite, smoke=options.smoke) as workbench:
        subject = prepare_scope(workbench, [commit], options.bench, progress.report)
        cells = select_cells(subject, table)
        require_known_parameters(cells, steps, f"the ablation {name!r}")
        require_goals(goals, subject.discovery, progress.report)
        owner = f"perfci compare --ladder in {config.root}"
        with (
            machine_lock(config.lock_path, owner=owner, wait=not options.no_wait, on_wait=progress.report),
            closing(open_store_to_write(config)) as store,
        ):
            found = run_ablation(
                store,
                workbench,
                config,
                subject,
                commit,
                table,
                group_variants(cells, steps),
                progress,
                goals=goals,
                budget_s=options.budget_s,
            )
    judged = judge_ablation_goals(goals, found)
    write_report(found, judged, options)
    return exit_code(found, judged, strict=options.strict)


def write_report(ablation: AblationResult, goals: Sequence[GoalVerdict], options: ComparisonOptions) -> None:
    policy = ablation.variant_session.policy
    if options.json_file:
        told = {"commit": ablation.commit, "session": ablation.session, "ladders": ablation.ablations}
        write_json(options.json_file, told | {"numerics": ablation.numerics, "goals": goals})
    if options.markdown:
        text = render_ablations_markdown(ablation.ablations, policy)
        options.markdown.write_text("\n".join(part for part in (text, render_goals_markdown(goals)) if part))
    if options.json_file != "-":
        click.echo(f"commit {ablation.commit.short_sha} {ablation.commit.subject}\n")
        told_already = any(goal.trades for goal in goals)
        paid = (
            []
            if told_already
            else [f"⇄ {trade_sentence(trade)}\n" for trade in find_ablation_trades(ablation)]
        )
        parts = [*(format_ablation(one, policy) for one in ablation.ablations), *paid, format_goals(goals)]
        click.echo("\n".join(part for part in parts if part))


def exit_code(ablation: AblationResult, goals: Sequence[GoalVerdict], *, strict: bool) -> int:
    """A step may cost what it likes, since it was only asked how much; one that fell is a failure."""
    if not any(status is Status.OK for status in ablation.statuses):
        return 4
    fell = any(rung.rejection_reason for ladder in ablation.ablations for rung in ladder.steps)
    steps = [verdict for ladder in ablation.ablations for rung in ladder.steps for verdict in rung.verdicts]
    undecided = any(
        verdict.kind in (VerdictKind.INCONCLUSIVE, VerdictKind.NOT_COMPARABLE) for verdict in steps
    )
    return exit_code_with_goals(1 if fell else 3 if strict and undecided else 0, goals, strict=strict)
