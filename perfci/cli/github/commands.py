"""``perfci github``: what a pull request's job measures, and what the pull request is told of it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import click

from perfci.cli.compare.commands import exit_code, measure_comparison, parse_duration
from perfci.cli.compare.commands import write_report as print_report
from perfci.cli.compare.variants import ComparisonOptions
from perfci.cli.github.slowdown_profiles import profile_slowdowns
from perfci.cli.shared.context import (
    current_config,
    current_repository,
    load_repository_config,
    open_store_to_read,
)
from perfci.cli.shared.flush_report import server_option
from perfci.cli.shared.options import bench_option, global_options, smoke_option, suite_option
from perfci.config import Config
from perfci.config.github_job import GitHubJob
from perfci.github.client import GitHubClient, open_github_client
from perfci.github.pull_report import ACTIONS_AUTHOR, CommentAuthor, ReportOutdated
from perfci.model import Commit, PerfciError
from perfci.report.escaping import make_printable
from perfci.report.number_format import format_count, format_signed_percent
from perfci.report.pulls.check_result import GateMode
from perfci.report.pulls.comparison_findings import Findings
from perfci.report.pulls.placeholder_comment import NotMeasuredReason
from perfci.runner.git_repository import GitRepository
from perfci.service.expected_changes.read_pulls import fetch_expected_changes_of_push
from perfci.service.pulls.read_artifact import ARTIFACT_NAME
from perfci.service.pulls.report_pull import (
    PullRef,
    build_missing_results,
    build_page_url,
    fetch_results,
    get_log_url,
    get_run_conclusion,
    is_comment_event,
    is_run_in_progress,
    list_pulls,
    list_pushed_commits,
    mark_comment_outdated,
    parse_pull,
    report_to_pull,
    write_job_summary,
)
from perfci.service.pulls.results_artifact import PullResults, read_results, write_results, write_runs
from perfci.service.uploads.send_runs import resolve_server, send_expected_changes

PROFILES_FOLDER = "profiles"

MAX_COMMITS_QUERIED = 100
"""Commits of a push whose pull requests GitHub is asked for: it answers a job a thousand times an hour."""

results_option = click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path(ARTIFACT_NAME),
    show_default=True,
    metavar="DIR",
    help="the folder that one job hands to the other",
)


@click.group("github")
@global_options
def command() -> None:
    """Compare a pull request in a job of GitHub Actions, and tell it what came of that.

    Verbs for different jobs: the one that measures runs foreign code and needs no credential, the one that reports
    holds the token and runs nothing of the pull request; after the merge, one tells the server what was announced.
    """


@command.command("compare")
@suite_option
@bench_option
@smoke_option
@click.option("--budget", default="", metavar="TIME", help="stop buying pairs after this long, e.g. 20m")
@click.option(
    "--main", "with_main", is_flag=True, help="measure what the target branch did since as well, a second run"
)
@results_option
@global_options
def compare_command(
    suite: Path | None, bench: str, smoke: bool, budget: str, with_main: bool, results: Path
) -> int:
    """Measure the job's pull request against its merge base, and leave what came of it in a folder.

    A pull request that changes no file the benchmarks can see ([suite] ignored_files) is not measured. The job's summary and
    outputs tell the verdict; a regression does not fail this job, the check that `perfci github report` sets may.
    What got slower most is profiled at both sides, as long as there is time, and the profiles are left there as well.
    Both sides are always measured, pair by pair: results of another day know nothing of this one's machine.

    Exit code 0 compared or nothing to compare, 2 usage, 4 nothing measured.
    """
    asked = ComparisonOptions(
        suite, bench, smoke, parse_duration(budget) if budget else None, False, False, None, None
    )
    repository = current_repository()
    config = load_repository_config(repository)
    job = require_job(config)
    base, head, main = resolve_sides(repository, parse_pull(job))
    unseen = config.settings.suite.ignored_files
    if repository.has_identical_inputs(base, head, unseen):
        click.echo("no file that the benchmarks can see differs: nothing to measure")
        _write_outputs(
            results, job, PullResults(config.project, base, head, not_measured=NotMeasuredReason.IDENTICAL)
        )
        return 0
    until = math.inf if asked.budget_s is None else time.monotonic() + asked.budget_s
    try:
        found, measurement = measure_comparison(repository, config, base, head, asked)
    except PerfciError as error:
        _write_outputs(
            results,
            job,
            PullResults(config.project, base, head, not_measured=NotMeasuredReason.BROKEN, detail=str(error)),
        )
        raise
    print_report(found, asked)
    sessions = measurement.sessions
    if with_main and not repository.has_identical_inputs(base, main, unseen):
        found, more = _add_base_drift(repository, config, found, main, asked)
        sessions = [*sessions, *more]
    with closing(open_store_to_read(config)) as store:
        write_runs(results, store, sessions)
    handed = PullResults(config.project, base, head, replace(found, merge_base=True))
    write_results(results, handed)  # whatever becomes of the profiles
    profiled = profile_slowdowns(repository, config, found, asked, results / PROFILES_FOLDER, until)
    _write_outputs(
        results, job, replace(handed, findings=replace(found, merge_base=True, profiled_cells=profiled))
    )
    return 4 if exit_code(found, measurement.statuses, strict=False) == 4 else 0


def _add_base_drift(
    repository: GitRepository, config: Config, findings: Findings, main: Commit, options: ComparisonOptions
) -> tuple[Findings, Sequence[str]]:
    """Findings with what main did since the same base, and the sessions of that; as they are where that breaks."""
    click.echo(f"\nwhat main did since: {findings.base.short_sha} → {main.short_sha}")
    try:
        drift, drifting = measure_comparison(repository, config, findings.base, main, options)
    except PerfciError as error:
        click.echo(f"what main did since is not known: {error}", err=True)
        return findings, ()
    print_report(drift, options)
    return replace(findings, main_drift=drift.verdicts, main_head=main), drifting.sessions


@command.command("report")
@click.argument("results", type=click.Path(path_type=Path), default=Path(ARTIFACT_NAME))
@click.option(
    "--gate",
    type=click.Choice(["advisory", "block"]),
    default="advisory",
    show_default=True,
    help="whether a regression turns the check red",
)
@click.option(
    "--outcome",
    default="",
    metavar="WORD",
    help="how the measuring job ended, where it left no results: ${{ needs.bench.result }}",
)
@click.option(
    "--author", default=ACTIONS_AUTHOR.login, show_default=True, help="under whose name the token comments"
)
@global_options
def report_command(results: Path, gate: GateMode, outcome: str, author: str) -> None:
    """Tell the pull request what RESULTS hold: one comment, edited in place, and a check.

    The token is GITHUB_TOKEN, with the permissions pull-requests: write and checks: write. Which pull request it is,
    GitHub says; what is about another commit than its newest is refused. Where there are no results, it says so;
    where the workflow run that it follows has only begun, it says of a comment on an older commit that it is one;
    where somebody's comment accepts what got worse, it takes what was measured from the artifacts of the repository.
    """
    config = current_config()
    job = require_job(config)
    token = require_token(job)
    handed, client = read_results(results), open_github_client(token, job.api_url)
    try:
        pulls = list_pulls(job, client)
        if not pulls:
            click.echo("this comment accepts nothing of a pull request: nothing to do")
        for pull in pulls:
            click.echo(
                _report_pull(
                    job,
                    config,
                    client,
                    CommentAuthor(author),
                    pull,
                    handed,
                    gate,
                    outcome or get_run_conclusion(job),
                )
            )
    except ReportOutdated as gone:
        click.echo(str(gone))


@command.command("announce")
@server_option
@global_options
def announce_command(server: str) -> None:
    """Tell the server what the pull requests announced that this push brought to its branch.

    What their change costs is accepted by itself then, as far as it was announced. GITHUB_TOKEN needs the permission
    pull-requests: read, and the job `id-token: write`, or a token in PERFCI_TOKEN. What somebody announced who may not
    write to the repository is not sent. Of a push of more than a hundred commits the newest hundred are looked at.
    """
    config = current_config()
    job = require_job(config)
    address, token = resolve_server(config, server), require_token(job)
    pushed = list_pushed_commits(job)
    if len(pushed) > MAX_COMMITS_QUERIED:
        click.echo(
            f"of {len(pushed):,} commits that were pushed the newest {MAX_COMMITS_QUERIED} are looked at"
        )
    client = open_github_client(token, job.api_url)
    arrived = fetch_expected_changes_of_push(
        client, job.repository, pushed[:MAX_COMMITS_QUERIED], job.ref, job.sha
    )
    counted = [one for one in arrived if one.expected.is_authorized]
    for one in arrived:
        if one not in counted:
            what = f"{make_printable(one.expected.match)} {format_signed_percent(one.expected.change)}"
            click.echo(
                f"{one.source} announces {what} and was opened by somebody who may not write here: left out"
            )
    if not counted:
        click.echo(f"{job.sha[:12]}: nothing was announced")
        return
    told = send_expected_changes(config, address, counted)
    known = "" if told == len(counted) else ", which knew the others"
    click.echo(
        f"{job.sha[:12]}: {format_count(len(counted), 'announcement')} found, {told} told to {address}{known}"
    )


def _report_pull(
    job: GitHubJob,
    config: Config,
    client: GitHubClient,
    author: CommentAuthor,
    pull: PullRef,
    artifact: PullResults | None,
    gate: GateMode,
    outcome: str,
) -> str:
    """Do what there is to do about one pull request, and say it in a line."""
    if is_run_in_progress(job):
        aged = mark_comment_outdated(client, author, pull, config.project)
        return f"{aged}: told to be of an older commit" if aged else "no comment on an older commit"
    shown = artifact or (
        fetch_results(client, pull)
        if is_comment_event(job)
        else build_missing_results(pull, config.project, outcome)
    )
    if shown is None:
        return f"{pull.repository}#{pull.number}: no results of {pull.head[:12]} are kept: measure it again"
    page = build_page_url(config.settings.client.server, shown) if shown.findings else ""
    one = report_to_pull(
        client, author, pull, config.project, shown, gate=gate, page_url=page, log_url=get_log_url(job)
    )
    return f"{one.comment_url or 'no comment needed'}: {', '.join(one.written) or 'nothing to change'}"


def require_job(config: Config) -> GitHubJob:
    if config.github is None:
        raise PerfciError(
            "this is no job of GitHub Actions: GITHUB_ACTIONS is not set; `perfci compare BASE HEAD` works anywhere"
        )
    return config.github


def require_token(job: GitHubJob) -> str:
    token = job.token.get_secret_value()
    if not token:
        raise PerfciError(
            "GITHUB_TOKEN is not set: hand it to this step with `env: GITHUB_TOKEN: ${{ github.token }}`"
        )
    return token


def _write_outputs(results: Path, job: GitHubJob, artifact: PullResults) -> None:
    """Leave everything where the next job, the reader of this one and its other steps look for it."""
    write_results(results, artifact)
    write_job_summary(job, artifact)


def resolve_sides(repository: GitRepository, pull: PullRef) -> tuple[Commit, Commit, Commit]:
    """The commit where the pull request left its target, its newest one, and the newest of the target."""
    head, target = repository.resolve(pull.head), repository.resolve(pull.base)
    base = repository.merge_base(target, head)
    if base is None:
        raise PerfciError(
            f"#{pull.number} and the branch it goes to have no commit in common in this clone: "
            "give actions/checkout `fetch-depth: 0`"
        )
    return repository.commit(base), repository.commit(head), repository.commit(target)
