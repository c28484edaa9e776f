"""``perfci upload`` and ``perfci flush``: send result files to a server, and what earlier jobs spooled."""

from __future__ import annotations

from pathlib import Path

import click

from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.options import global_options, json_option, server_option
from perfci.cli.shared.repository_and_config import current_config
from perfci.cli.shared.result_file_options import (
    build_file_reading_context,
    find_repository,
    index_first_parent_commits,
    result_file_options,
)
from perfci.config import Config
from perfci.config.ci_job import PULL_REQUEST, JobPullRequest
from perfci.formats.format_types import WarnOnce
from perfci.model import Direction, PerfciError, Run
from perfci.net.api_schemas.pull_requests import PullRequestVerdictShape
from perfci.net.spool_sender import FlushReport
from perfci.number_format import format_count
from perfci.service.pulls.job_trigger_event import get_pull_of_job
from perfci.service.uploads.pull_request_of_run import UploadPullRequest, build_upload_pull_request
from perfci.service.uploads.read_result_files import find_files
from perfci.service.uploads.resolve_units import parse_metric_option
from perfci.service.uploads.send_to_server import (
    open_spool,
    read_runs_to_send,
    resolve_server_url,
    send_spooled_runs,
    spool_and_send_runs,
    wait_for_pull_request_verdict,
)


@click.command("upload")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@result_file_options
@click.option(
    "--pull-request",
    "pull_request_number",
    type=click.IntRange(1, 999_999_999),
    metavar="N",
    help="the pull or merge request that was measured  [default: that of the CI job]",
)
@click.option(
    "--base", "base_revision", metavar="REV", help="where it starts from  [default: the merge base]"
)
@click.option("--wait", is_flag=True, help="wait for the verdict on the pull request and show it")
@click.option(
    "--markdown",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="wait for the verdict and write its comment as Markdown",
)
@server_option
@json_option
@global_options
def upload_command(
    paths: tuple[Path, ...],
    format_name: str,
    revision: str | None,
    machine: str,
    direction: Direction | None,
    metric_meanings: tuple[str, ...],
    pull_request_number: int | None,
    base_revision: str | None,
    wait: bool,
    markdown: Path | None,
    server: str,
    json_file: str | None,
) -> int:
    """Send result files or folders of any format to a server; the same file again adds nothing.

    Spool results on disk, then send them; a run leaves the spool once the server has stored it.

    What a job of a pull or merge request measured is compared with recent runs of the main branch and never
    enters its history.

    The token comes from PERFCI_TOKEN; a job of GitHub Actions with `id-token: write` needs none. Exit code 0
    if everything is stored there, 1 if a run was rejected or is pending, 2 usage; with --wait also 1 for a
    regression and 4 if nothing could be compared.
    """
    config = current_config()
    address = resolve_server_url(config, server)
    warn = WarnOnce(lambda text: click.echo(f"  {text}", err=True))
    units = dict(map(parse_metric_option, metric_meanings))
    files = [file for path in paths for file in find_files(path, format_name, warn)]
    reading = None
    # perfci's own documents say everything, so that the repository's history need not be read for them.
    if any(name != "perfci" for _, name in files):
        reading = build_file_reading_context(config, revision, machine, direction)
    pull_request = find_pull_request(config, pull_request_number, base_revision)
    if (wait or markdown) and pull_request is None:
        raise PerfciError(
            "--wait waits for the verdict on a pull request, and this is a job of none: give --pull-request N"
        )
    heads: list[str] = []

    def file_under_pull_request(run: Run) -> Run:
        if pull_request is None:
            return run
        filed = pull_request.assign_to(run)
        heads.append(filed.commit.sha)
        return filed

    runs = (
        file_under_pull_request(run)
        for file, name in files
        for run in read_runs_to_send(file, name, reading, units, warn)
    )
    report = spool_and_send_runs(config, address, runs)
    print_flush_report(report, address, err=json_file == "-")
    if json_file:
        write_json(json_file, serialize_flush_report(report))
    code = flush_exit_code(report)
    if code or pull_request is None or not heads or not (wait or markdown):
        return code
    verdict = wait_for_pull_request_verdict(config, address, int(pull_request.number), heads[-1])
    return show_pull_request_verdict(verdict, markdown, err=json_file == "-")


@click.command("flush")
@server_option
@json_option
@global_options
def flush_command(server: str, json_file: str | None) -> int:
    """Send spooled results to their servers.

    Exit code 0 if nothing is pending any more, 1 if a run was rejected or is pending, 2 usage.
    """
    config = current_config()
    servers = [server.rstrip("/")] if server else open_spool(config).list_servers()
    reports = {address: send_spooled_runs(config, address) for address in servers}
    for address, report in reports.items():
        print_flush_report(report, address, err=json_file == "-")
    if not servers:
        click.echo("nothing is pending", err=json_file == "-")
    if json_file:
        write_json(
            json_file, {address: serialize_flush_report(report) for address, report in reports.items()}
        )
    return max((flush_exit_code(report) for report in reports.values()), default=0)


def show_pull_request_verdict(
    verdict: PullRequestVerdictShape, markdown: Path | None, *, err: bool = False
) -> int:
    """Print the title of a verdict and write its comment; return the exit code, as of a comparison."""
    title = verdict.title or "Nothing to compare with: the main branch has no run of these benchmarks"
    click.echo(f"pull request {verdict.number}: {title}", err=err)
    if markdown:
        markdown.write_text(verdict.markdown or f"{title}.\n", encoding="utf-8")
    if verdict.state is None:
        return 4
    return 1 if verdict.state == "worse" else 0


def find_pull_request(config: Config, number: int | None, base: str | None) -> UploadPullRequest | None:
    """Find the pull request that was measured: by the options, else by the CI job."""
    job = config.ci_job.pull_request if config.ci_job else None
    if config.github and config.github.event_name == PULL_REQUEST and config.github.event:
        pull = get_pull_of_job(config.github)
        job = JobPullRequest(number=str(pull.number), head=pull.head, base=pull.base, merge=config.github.sha)
    if job is None and number is None and base is None:
        return None
    repository = find_repository(Path.cwd())

    def resolve(revision: str) -> str:
        return repository.resolve_revision(revision) if repository else revision

    def find_merge_base(target: str, head: str) -> str | None:
        return repository.find_merge_base(resolve(target), resolve(head)) if repository else None

    commits = index_first_parent_commits(repository)
    return build_upload_pull_request(job, number, resolve(base) if base else "", commits, find_merge_base)


def print_flush_report(report: FlushReport, server: str, *, err: bool = False) -> None:
    """Print a summary line, then rejections and messages of the server."""
    parts = [f"{format_count(len(report.sent), 'run')} sent to {server}"]
    parts += [f"{len(report.already_stored)} already stored"] if report.already_stored else []
    parts += [f"{len(report.rejected)} rejected"] if report.rejected else []
    parts += [f"{report.waiting} pending (`perfci flush` tries again)"] if report.waiting else []
    click.echo(", ".join(parts), err=err)
    for sentence in (*report.rejected, *report.messages):
        click.echo(f"  {sentence}", err=True)


def flush_exit_code(report: FlushReport) -> int:
    """1 if a run was rejected or is still pending."""
    return 1 if report.rejected or report.waiting else 0


def serialize_flush_report(report: FlushReport) -> dict[str, object]:
    """The report as plain JSON values."""
    return {
        "sent": [receipt.model_dump() for receipt in report.sent],
        "already_stored": [receipt.model_dump() for receipt in report.already_stored],
        "rejected": report.rejected,
        "pending": report.waiting,
        "messages": report.messages,
    }
