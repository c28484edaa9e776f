"""``perfci run``: measure a commit, or a range in rounds; judge neighbours, and convict only on fresh pairs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import click

from perfci.cli.shared.context import config_for, repository_here, store_to_write, write_json
from perfci.cli.shared.flush_report import tell
from perfci.cli.shared.options import bench_option, global_options, json_option, smoke_option, suite_option, wait_option
from perfci.cli.shared.terminal_progress import Progress
from perfci.measure.compare_range import RangeResult, run_range
from perfci.measure.open_session import open_subject, open_workbench
from perfci.model import Commit, Status, VerdictKind
from perfci.report.verdict_labels import verdict_glyph
from perfci.report.verdict_sentences import verdict_sentence
from perfci.runner.locks import machine_lock
from perfci.service.expected_changes.commit_trailers import keep_trailers
from perfci.service.incidents.local_incidents import look_again
from perfci.service.uploads.send_runs import runs_of_session, server_of, upload
from perfci.verdicts.expected_change import TRAILER

MOST_COMMITS = 1000
"""Commits whose messages are searched for expected changes; a level that is older has long been settled."""


@click.command("run")
@click.argument("revision", default="HEAD", metavar="[REV or RANGE]")
@suite_option
@bench_option
@smoke_option
@click.option("--rounds", type=click.IntRange(1, 1000), help="how often every commit is visited  [default: 5]")
@click.option("--confirm/--no-confirm", default=True, help="measure fresh pairs for every suspected change")
@wait_option
@click.option("--send", is_flag=True, help="send the runs to [client] server as well")
@click.option("--server", metavar="URL", default="", help="send the runs there as well")
@json_option
@global_options
def command(
    revision: str, suite: Path | None, bench: str, smoke: bool, rounds: int | None, confirm: bool, no_wait: bool,
    send: bool, server: str, json_file: str | None,
) -> int:  # fmt: skip
    """Measure commits in rounds: every round visits each commit once in random order.

    REV is a commit, branch or tag (HEAD when absent); RANGE is A..B along the first-parent line, A itself excluded.
    Exit code 0 when all cells were measured or skipped with a reason, 1 some failed, 2 usage, 4 nothing measured.
    """
    repository = repository_here()
    config = config_for(repository)
    address = server_of(config, server) if send or server else ""
    commits = repository.commits(revision)
    progress = Progress()
    with open_workbench(repository, config, suite, smoke=smoke) as workbench:
        subject = open_subject(workbench, commits, bench, progress.say)
        count = rounds or config.settings.run.rounds
        with (
            machine_lock(
                config.lock_path, owner=f"perfci run in {config.root}", wait=not no_wait, waiting=progress.say
            ),
            closing(store_to_write(config)) as store,
        ):
            result = run_range(store, workbench, config, subject, count, progress, confirm=confirm)
            messages = repository.messages(commits[-1].sha, TRAILER, MOST_COMMITS)
            keep_trailers(store, config.project, messages, datetime.now(UTC))
            look_again(store, config)
            runs = [run for uid in result.sessions for run in runs_of_session(store, uid)] if address else []
    report(result, commits, json_file)
    if address:
        tell(upload(config, address, runs), address, err=True)
    return exit_code(result)


def report(result: RangeResult, commits: Sequence[Commit], json_file: str | None) -> None:
    statuses = {status: count for status in Status if (count := result.statuses.count(status))}
    if json_file:
        counted = {"processes": len(result.statuses), "statuses": statuses, "work_s": result.work_s}
        write_json(json_file, {"session": result.sessions[0], **counted, "verdicts": result.verdicts})
    if json_file == "-":
        return
    ended = ", ".join(f"{count} {status}" for status, count in statuses.items())
    click.echo(f"{len(result.statuses)} processes measured: {ended or 'nothing was left to measure'}")
    if len(commits) > 1:
        click.echo("\n" + found_lines(result, commits))


def found_lines(result: RangeResult, commits: Sequence[Commit]) -> str:
    """What was settled, commit by commit; suspicions that were acquitted are not worth a line."""
    lines = []
    for commit in commits:
        told = [v for v in result.settled if v.head == commit.sha and v.kind is not VerdictKind.UNCHANGED]
        if told:
            lines.append(f"{commit.short} {commit.subject}")
            lines += [f"  {verdict_glyph(verdict)} {verdict_sentence(verdict)}" for verdict in told]
    return "\n".join(lines) or "no change was found between neighbouring commits"


def exit_code(result: RangeResult) -> int:
    good = sum(status in (Status.OK, Status.SKIPPED) for status in result.statuses)
    if not any(status is Status.OK for status in result.statuses):
        return 4
    return 0 if good == len(result.statuses) else 1
