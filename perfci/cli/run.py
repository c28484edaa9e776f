"""``perfci run``: measure a commit, or a range in rounds; judge neighbours, and convict only on fresh pairs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import click

from perfci.cli.shared.context import (
    current_repository,
    load_repository_config,
    open_store_to_write,
    write_json,
)
from perfci.cli.shared.flush_report import print_report
from perfci.cli.shared.options import (
    bench_option,
    global_options,
    json_option,
    smoke_option,
    suite_option,
    wait_option,
)
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.measure.compare_range import RangeResult, run_range
from perfci.measure.open_session import open_workbench, prepare_scope
from perfci.model import Commit, Status, VerdictKind
from perfci.report.verdict_labels import verdict_glyph
from perfci.report.verdict_sentences import verdict_sentence
from perfci.runner.locks import machine_lock
from perfci.service.expected_changes.commit_trailers import save_commit_trailers
from perfci.service.incidents.local_incidents import evaluate_local_project
from perfci.service.uploads.send_runs import load_session_runs, resolve_server, upload_runs
from perfci.verdicts.expected_change import EXPECT_TRAILER

MOST_COMMITS = 1000
"""Commits whose messages are searched for expected changes; a level that is older has long been settled."""


@click.command("run")
@click.argument("revision", default="HEAD", metavar="[REV or RANGE]")
@suite_option
@bench_option
@smoke_option
@click.option(
    "--rounds", type=click.IntRange(1, 1000), help="how often every commit is visited  [default: 5]"
)
@click.option("--confirm/--no-confirm", default=True, help="measure fresh pairs for every suspected change")
@wait_option
@click.option("--send", is_flag=True, help="send the runs to [client] server as well")
@click.option("--server", metavar="URL", default="", help="send the runs there as well")
@json_option
@global_options
def command(
    revision: str,
    suite: Path | None,
    bench: str,
    smoke: bool,
    rounds: int | None,
    confirm: bool,
    no_wait: bool,
    send: bool,
    server: str,
    json_file: str | None,
) -> int:
    """Measure commits in rounds: every round visits each commit once in random order.

    REV is a commit, branch or tag (HEAD when absent); RANGE is A..B along the first-parent line, A itself excluded.
    Exit code 0 when all cells were measured or skipped with a reason, 1 some failed, 2 usage, 4 nothing measured.
    """
    repository = current_repository()
    config = load_repository_config(repository)
    address = resolve_server(config, server) if send or server else ""
    commits = repository.commits(revision)
    progress = TerminalProgress()
    with open_workbench(repository, config, suite, smoke=smoke) as workbench:
        subject = prepare_scope(workbench, commits, bench, progress.report)
        count = rounds or config.settings.run.rounds
        with (
            machine_lock(
                config.lock_path,
                owner=f"perfci run in {config.root}",
                wait=not no_wait,
                on_wait=progress.report,
            ),
            closing(open_store_to_write(config)) as store,
        ):
            result = run_range(store, workbench, config, subject, count, progress, confirm=confirm)
            messages = repository.find_messages(commits[-1].sha, EXPECT_TRAILER, MOST_COMMITS)
            save_commit_trailers(store, config.project, messages, datetime.now(UTC))
            evaluate_local_project(store, config)
            runs = (
                [run for uid in result.sessions for run in load_session_runs(store, uid)] if address else []
            )
    write_report(result, commits, json_file)
    if address:
        print_report(upload_runs(config, address, runs), address, err=True)
    return exit_code(result)


def write_report(result: RangeResult, commits: Sequence[Commit], json_file: str | None) -> None:
    statuses = {status: count for status in Status if (count := result.statuses.count(status))}
    if json_file:
        counted = {"processes": len(result.statuses), "statuses": statuses, "work_s": result.work_s}
        write_json(json_file, {"session": result.sessions[0], **counted, "verdicts": result.verdicts})
    if json_file == "-":
        return
    ended = ", ".join(f"{count} {status}" for status, count in statuses.items())
    click.echo(f"{len(result.statuses)} processes measured: {ended or 'nothing was left to measure'}")
    if len(commits) > 1:
        click.echo("\n" + format_changes(result, commits))


def format_changes(result: RangeResult, commits: Sequence[Commit]) -> str:
    """What was settled, commit by commit; suspicions that were acquitted are not worth a line."""
    lines = []
    for commit in commits:
        told = [v for v in result.confirmed if v.head == commit.sha and v.kind is not VerdictKind.UNCHANGED]
        if told:
            lines.append(f"{commit.short_sha} {commit.subject}")
            lines += [f"  {verdict_glyph(verdict)} {verdict_sentence(verdict)}" for verdict in told]
    return "\n".join(lines) or "no change was found between neighbouring commits"


def exit_code(result: RangeResult) -> int:
    good = sum(status in (Status.OK, Status.SKIPPED) for status in result.statuses)
    if not any(status is Status.OK for status in result.statuses):
        return 4
    return 0 if good == len(result.statuses) else 1
