"""``perfci run``: measure a commit, or a range in rounds; confirm changes only on fresh pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime

import click

from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.format_measurement_plan import (
    format_confirmation_cost,
    format_left_out_cells,
    format_plan_summary,
    write_measurement_plan,
)
from perfci.cli.shared.options import (
    SuiteChoice,
    bench_option,
    global_options,
    json_option,
    parse_time_budget,
    smoke_option,
    suite_choice_option,
    wait_option,
)
from perfci.cli.shared.repository_and_config import current_repository, load_repository_config
from perfci.cli.shared.store_and_machine_lock import lock_machine_and_open_store, open_store_to_write
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.cli.upload_and_flush import print_flush_report
from perfci.config import Config
from perfci.measure.cells_within_time_budget import TimeBudget
from perfci.measure.commit_ranges.measure_screen_confirm_range import (
    RangeResult,
    measure_screen_confirm_range,
)
from perfci.measure.measure_and_store_session import SessionScope
from perfci.measure.open_measurement_session import (
    create_suite_runner,
    prepare_session_scope,
    replace_declared_with_measured_costs,
)
from perfci.model import Commit, Run, Status, Verdict, VerdictKind
from perfci.number_format import format_count
from perfci.project_policies import build_policy
from perfci.report.commits.commit_results import CommitReport
from perfci.report.commits.commit_results_text import format_commit_report, serialize_commit_report
from perfci.report.verdict_groups import group_verdicts
from perfci.report.verdict_table import explanation_phrases
from perfci.report.verdict_text import QUIET_KINDS, verdict_glyph, verdict_sentence
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.service.incidents.reconcile_incidents import evaluate_and_reconcile
from perfci.service.load_commit_report import load_commit_report
from perfci.service.uploads.send_to_server import (
    load_runs_of_session,
    resolve_server_url,
    spool_and_send_runs,
)
from perfci.store import Store
from perfci.store.writes.measured_sessions import finish_session
from perfci.verdicts.judging_policy import Policy
from perfci.verdicts.related_metrics import is_felt_by_users

MAX_TABLE_ROWS = 40
"""Rows of the table at the end; ``perfci show`` has all of them."""


@click.command("run")
@click.argument("revision", default="HEAD", metavar="[REV or RANGE]")
@suite_choice_option
@bench_option
@smoke_option
@click.option(
    "--rounds", type=click.IntRange(1, 1000), help="how often every commit is visited  [default: 5]"
)
@click.option(
    "--budget",
    default="",
    metavar="TIME",
    help="measure what fits, e.g. 10m; call again for the rest",
)
@click.option(
    "--plan", "plan_only", is_flag=True, help="list the cells with their costs, and measure nothing"
)
@click.option("--confirm/--no-confirm", default=True, help="measure fresh pairs for every candidate change")
@wait_option
@click.option("--send", is_flag=True, help="send the runs to [client] server as well")
@click.option("--server", metavar="URL", default="", help="send the runs there as well")
@json_option
@global_options
def run_command(
    revision: str,
    suite: SuiteChoice,
    bench: str,
    smoke: bool,
    rounds: int | None,
    budget: str,
    plan_only: bool,
    confirm: bool,
    no_wait: bool,
    send: bool,
    server: str,
    json_file: str | None,
) -> int:
    """Measure commits in rounds: every round visits each commit once in random order.

    REV is a commit, branch or tag (HEAD when absent); RANGE is A..B along the first-parent line, without A.
    With --budget, what is left out is named, and the same call again measures it.
    Exit code 0 if all cells were measured or skipped with a reason, 1 some failed, 2 usage, 4 nothing
    measured.
    """
    repository, progress = current_repository(), TerminalProgress(name_unavailable=False)
    config = load_repository_config(repository)
    address = resolve_server_url(config, server) if send or server else ""
    commits, budget_s = repository.list_commit_or_range(revision), parse_time_budget(budget)
    with create_suite_runner(repository, config, suite.folder, smoke=smoke) as runner:
        default_only = suite.is_default_suite_only(bench)
        scope = prepare_session_scope(runner, commits, bench, progress.report, default_only=default_only)
        count = rounds or config.settings.run.rounds
        policy = build_policy(config.settings) if confirm and len(commits) > 1 else None
        if plan_only:
            return write_planned_cells(config, runner, scope, len(commits) * count, json_file, policy)
        with lock_machine_and_open_store(config, "perfci run", progress, no_wait=no_wait) as store:
            scope = replace_declared_with_measured_costs(store, runner, config.project, scope)
            limit = TimeBudget(math.inf if budget_s is None else budget_s)
            plan = [format_plan_summary(scope.cells, len(commits) * count)]
            if policy:
                plan.append(format_confirmation_cost(scope.cells, policy))
            result = measure_screen_confirm_range(
                store,
                runner,
                config,
                scope,
                count,
                progress,
                confirm=confirm,
                budget=limit,
                plan_summary="\n".join(plan),
            )
            evaluate_and_reconcile(store, config)
            reports = load_commit_reports(store, config, result, commits)
            runs = load_complete_runs_to_send(store, config, result, progress) if address else []
    write_range_report(result, commits, reports, json_file)
    if runs:
        print_flush_report(spool_and_send_runs(config, address, runs), address, err=True)
    return range_exit_code(result)


def load_complete_runs_to_send(
    store: Store, config: Config, result: RangeResult, progress: TerminalProgress
) -> list[Run]:
    """The runs of the sessions, once they are whole: a server takes no other content for a run it has.

    A job of GitHub may have no store in the next call, so that its unfinished sessions end here.
    """
    if any(left.fits_later for left in result.left_out):
        if config.github is None:
            progress.report("not sent yet: runs are sent by the call that measures the last of their cells")
            return []
        with store.begin() as tx:
            for uid in result.sessions:
                finish_session(tx, uid, datetime.now(UTC))
    return [run for uid in result.sessions for run in load_runs_of_session(store, uid)]


def load_commit_reports(
    store: Store, config: Config, result: RangeResult, commits: Sequence[Commit]
) -> list[CommitReport]:
    """What each commit of the range came to, oldest first; one of which nothing was measured is left out."""
    if not result.statuses:
        return []
    policy = build_policy(config.settings)
    with store.read() as tx:
        reports = [load_commit_report(tx, config.project, commit, policy) for commit in commits]
    return [report for report in reports if report.results]


def write_planned_cells(
    config: Config,
    runner: MeasurementRunner,
    scope: SessionScope,
    visits: int,
    json_file: str | None,
    policy: Policy | None = None,
) -> int:
    """Write what each cell costs by earlier runs or its declaration; return the exit code."""
    with closing(open_store_to_write(config)) as store:
        planned = replace_declared_with_measured_costs(store, runner, config.project, scope)
    write_measurement_plan(planned.cells, visits, json_file, policy)
    return 0


def write_range_report(
    result: RangeResult, commits: Sequence[Commit], reports: Sequence[CommitReport], json_file: str | None
) -> None:
    """Write the result as JSON and text."""
    statuses = {status: count for status in Status if (count := result.statuses.count(status))}
    if json_file:
        counted = {"processes": len(result.statuses), "statuses": statuses, "work_s": result.work_s}
        left_out = [
            {"cell": left.cell.name, "cost_s": left.cost_s, "reason": left.reason} for left in result.left_out
        ]
        verdicts = {"verdicts": result.verdicts, "left_out": left_out}
        values = {"commits": [serialize_commit_report(report) for report in reports]}
        write_json(json_file, {"session": result.sessions[0], **counted, **verdicts, **values})
    if json_file == "-":
        return
    ended = ", ".join(f"{count} {status}" for status, count in statuses.items())
    click.echo(f"{len(result.statuses)} processes measured: {ended or 'nothing to measure'}")
    if result.left_out:
        click.echo(format_left_out_cells(result.left_out))
    if len(commits) > 1 and not any(left.fits_later for left in result.left_out):
        click.echo("\n" + format_confirmed_changes(result, commits))
    if reports:
        click.echo("\n" + format_commit_report(reports[-1], most=MAX_TABLE_ROWS))


def format_confirmed_changes(result: RangeResult, commits: Sequence[Commit]) -> str:
    """Confirmed changes, commit by commit, and in one line how many commits and questions are left.

    Candidates that turned out unchanged are left out.
    """
    lines, quiet = [], 0
    open_verdicts = [verdict for verdict in result.confirmed if verdict.kind is VerdictKind.INCONCLUSIVE]
    for commit in commits:
        verdicts = [verdict for verdict in result.confirmed if verdict.head == commit.sha]
        groups = [
            group
            for group in group_verdicts(verdicts, lambda series: True)
            if group.primary.kind not in QUIET_KINDS
        ]
        quiet += not groups
        if groups:
            lines.append(f"{commit.short_sha} {commit.subject}")
        for group in groups:
            lines.append(f"  {verdict_glyph(group.primary)} {verdict_sentence(group.primary)}")
            lines += [f"      {phrase}" for phrase in explanation_phrases(group)]
    lines.append(_format_quiet_commits(quiet, open_verdicts))
    return "\n".join(lines)


def _format_quiet_commits(quiet: int, open_verdicts: Sequence[Verdict]) -> str:
    line = f"{format_count(quiet, 'commit')}: nothing moved"
    if not open_verdicts:
        return line
    felt = sum(is_felt_by_users(verdict.series) for verdict in open_verdicts)
    metrics = f"{felt} of them about" if felt else "none about"
    questions = format_count(len(open_verdicts), "open question")
    return f"{line} ({questions}, {metrics} time, latency or memory that users feel)"


def range_exit_code(result: RangeResult) -> int:
    """The exit code of a range: failed cells are an error, skipped ones are not."""
    good = sum(status in (Status.OK, Status.SKIPPED) for status in result.statuses)
    if not any(status is Status.OK for status in result.statuses):
        return 4
    return 0 if good == len(result.statuses) else 1
