"""``perfci bisect GOOD..BAD --bench REGEX``: find the commit that moved a benchmark, or an incident."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import click

from perfci.cli.incidents.incident_listing import find_stored_incident
from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.options import (
    bench_option,
    global_options,
    json_option,
    parse_time_budget,
    smoke_option,
    suite_option,
    wait_option,
)
from perfci.cli.shared.repository_and_config import current_repository, load_repository_config
from perfci.cli.shared.store_and_machine_lock import lock_machine_and_open_store
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.measure.bisect_range import (
    BisectQuestion,
    bisect_range,
    choose_metric,
    list_bisected_commits,
    require_one_cell,
)
from perfci.measure.open_measurement_session import create_suite_runner, prepare_session_scope
from perfci.model import Commit, PerfciError
from perfci.report.commits.bisect_text import format_bisect_progress, format_bisect_result, serialize_bisect
from perfci.runner.git_repository import GitRepository
from perfci.verdicts.search.bisect_status import BisectStatus
from perfci.verdicts.search.commit_search import SearchRules

NAMED, NOT_NAMED, UNFINISHED = 0, 1, 3


@click.command("bisect")
@click.argument("revisions", default="", metavar="[GOOD..BAD]")
@click.option(
    "--incident",
    default="",
    metavar="NUMBER",
    help="search the range of an incident for what moved most in it",
)
@bench_option
@click.option("--metric", default="", metavar="NAME", help="the metric that moved  [default: the first one]")
@click.option(
    "--enter-merges", is_flag=True, help="where a merge moved it, go on among the commits it brought in"
)
@click.option(
    "--budget", default="", metavar="TIME", help="stop after so long, e.g. 20m; call again to go on"
)
@click.option(
    "--max-processes",
    type=click.IntRange(10, 10_000),
    default=SearchRules().max_processes,
    show_default=True,
    help="processes after which the smallest range is named instead",
)
@suite_option
@smoke_option
@wait_option
@json_option
@global_options
def bisect_command(
    revisions: str,
    incident: str,
    bench: str,
    metric: str,
    enter_merges: bool,
    budget: str,
    max_processes: int,
    suite: Path | None,
    smoke: bool,
    no_wait: bool,
    json_file: str | None,
) -> int:
    """Find the commit after GOOD and up to BAD that moved one benchmark, along the first-parent line.

    With --incident, what moved most in a stored incident is searched in its range.

    Each process measures the commit that is expected to tell most. A commit is named when it has 95 % of the
    probability and differs from the one before it on fresh processes; else the smallest range is. A call
    that was interrupted goes on with what it had measured.
    Exit code 0 a commit is named, 1 none is, 2 usage, 3 the budget was spent before the end.
    """
    repository, progress = current_repository(), TerminalProgress()
    config = load_repository_config(repository)
    if incident:
        if revisions or bench or metric:
            raise PerfciError("--incident says what is searched; leave out GOOD..BAD, --bench and --metric")
        revisions, bench, metric = find_largest_change(incident)
    commits = list_bisected_commits(repository, *split_revisions(revisions))
    budget_s, rules = parse_time_budget(budget), replace(SearchRules(), max_processes=max_processes)
    with create_suite_runner(repository, config, suite, smoke=smoke) as runner:
        scope = prepare_session_scope(runner, [commits[0], commits[-1]], bench, progress.report)
        cell = require_one_cell(scope)
        question = BisectQuestion(tuple(commits), cell, choose_metric(scope, cell, metric))
        with lock_machine_and_open_store(config, "perfci bisect", progress, no_wait=no_wait) as store:

            def search(wanted: BisectQuestion) -> BisectStatus:
                return bisect_range(
                    store,
                    runner,
                    config,
                    scope,
                    wanted,
                    progress,
                    lambda status: progress.report(format_bisect_progress(status)),
                    rules=rules,
                    budget_s=math.inf if budget_s is None else budget_s,
                )

            statuses = [search(question)]
            while enter_merges and (inside := list_commits_of_named_merge(repository, statuses[-1])):
                statuses.append(search(replace(question, commits=tuple(inside))))
    if json_file:
        write_json(json_file, [serialize_bisect(status) for status in statuses])
    if json_file != "-":
        click.echo("\n\n".join(format_bisect_result(status) for status in statuses))
    return bisect_exit_code(statuses[-1])


def find_largest_change(incident: str) -> tuple[str, str, str]:
    """The range, the cell as a pattern and the metric of what moved most in a stored incident."""
    stored = find_stored_incident(incident)
    if stored is None:
        raise PerfciError(f"There is no incident {incident}; `perfci incidents list` has their numbers.")
    members = [row for row in stored[1].members if row[0].dropped_at is None]
    if not members:
        raise PerfciError(f"Incident {incident} is of no series: there is no change to search for.")
    member, series = max(members, key=lambda row: abs(math.log1p(row[0].relative_change)))
    return f"{member.last_good}..{member.commit}", f"^{re.escape(series.cell)}$", series.metric.name


def split_revisions(revisions: str) -> tuple[str, str]:
    """Split GOOD..BAD."""
    good, dots, bad = revisions.partition("..")
    if not dots or not good:
        raise PerfciError(
            f"{revisions!r}: GOOD..BAD was expected, the last good commit and a bad one after it"
        )
    return good, bad


def list_commits_of_named_merge(repository: GitRepository, status: BisectStatus) -> list[Commit]:
    """The commits that a named merge brought in, after the one where their branch began; empty for others."""
    merge = status.named
    if merge is None or len(merge.parents) < 2:
        return []
    base = repository.find_merge_base(merge.parents[0], merge.parents[1])
    if base is None or base == merge.parents[1]:
        return []
    return [repository.read_commit(base), *repository.list_commit_or_range(f"{base}..{merge.parents[1]}")]


def bisect_exit_code(status: BisectStatus) -> int:
    """Whether a commit is named."""
    if status.conclusion is None:
        return UNFINISHED
    return NAMED if status.named else NOT_NAMED
