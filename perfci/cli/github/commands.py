"""``perfci github``: measure a pull request in GitHub Actions, and report the result on it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import click

from perfci.cli.compare.commits import commits_exit_code, measure_and_judge_commits, write_commits_report
from perfci.cli.compare.options_and_exit_code import ComparisonOptions
from perfci.cli.github.slowdown_profiles import profile_slowdowns
from perfci.cli.shared.options import (
    SuiteChoice,
    bench_option,
    global_options,
    parse_time_budget,
    server_option,
    smoke_option,
    suite_choice_option,
)
from perfci.cli.shared.repository_and_config import current_config, current_repository, load_repository_config
from perfci.cli.shared.store_and_machine_lock import open_store_to_read
from perfci.config import Config, fix_pair_count
from perfci.config.github_job import GitHubJob
from perfci.github.client import GitHubClient, open_github_client
from perfci.github.pull_report import ACTIONS_AUTHOR, CommentAuthor, ReportOutdated
from perfci.model import Commit, PerfciError
from perfci.number_format import format_count, format_signed_percent
from perfci.report.escaping import make_printable
from perfci.report.pulls.check_result import GateMode
from perfci.report.pulls.comparison_findings import Findings
from perfci.report.pulls.not_measured_comment import NotMeasuredReason
from perfci.runner.git_repository import GitRepository
from perfci.service.orders.check_order_content import FULL_SHA
from perfci.service.pulls.download_results_artifact import ARTIFACT_NAME
from perfci.service.pulls.expected_changes import fetch_expected_changes_of_push
from perfci.service.pulls.job_trigger_event import (
    OrderedComparison,
    PullRef,
    get_ordered_comparison,
    get_pull_of_job,
    get_workflow_log_url,
    get_workflow_run_conclusion,
    is_comment_event,
    is_workflow_run_in_progress,
    list_commits_of_job,
    list_pulls_of_job,
)
from perfci.service.pulls.report_pull import (
    build_comparison_page_url,
    build_results_without_artifact,
    fetch_pull_results,
    mark_comment_outdated,
    report_to_pull,
    write_job_summary_and_outputs,
)
from perfci.service.pulls.results_artifact_files import (
    PullResults,
    read_pull_results_if_any,
    write_pull_results,
    write_run_documents,
)
from perfci.service.uploads.send_to_server import resolve_server_url, send_expected_changes

PROFILES_FOLDER = "profiles"

MAX_COMMITS_QUERIED = 100
"""Commits of a push whose pull requests are queried: a job may send 1,000 requests an hour."""

results_option = click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path(ARTIFACT_NAME),
    show_default=True,
    metavar="DIR",
    help="the folder of the results artifact",
)


@click.group("github")
@global_options
def github_group() -> None:
    """Compare a pull request in GitHub Actions and report the result on it.

    Verbs for separate jobs: the measuring job runs code of the pull request without any credential; the
    reporting job holds the token and runs no code of the pull request; after the merge, a job sends its
    expected changes to the server.
    """


@github_group.command("compare")
@suite_choice_option
@bench_option
@smoke_option
@click.option(
    "--budget", default="", metavar="TIME", help="stop measuring further pairs after this long, e.g. 20m"
)
@click.option("--main", "with_main", is_flag=True, help="also measure the drift of the target branch")
@results_option
@global_options
def compare_command(
    suite: SuiteChoice, bench: str, smoke: bool, budget: str, with_main: bool, results: Path
) -> int:
    """Measure the job's pull request against its merge base, and write the results to a folder.

    A job that was started by hand (workflow_dispatch) compares the commits of its inputs base and head, and
    heeds the inputs bench, pairs and suite.

    A pull request that changes no file the benchmarks can see ([suite] ignored_files) is not measured. The
    job's summary and outputs hold the verdict; a regression does not fail this job, the check that `perfci
    github report` sets may. The worst slowdowns are profiled on both sides, within the budget. Both sides
    are always measured, in pairs: earlier results come from another machine state.

    Exit code 0 compared or nothing to compare, 2 usage, 4 nothing measured.
    """
    repository = current_repository()
    config = load_repository_config(repository)
    job = require_github_job(config)
    ordered = get_ordered_comparison(job)
    if ordered is None:
        base, head, main = resolve_pull_commits(repository, get_pull_of_job(job))
    else:
        base, head = _resolve_ordered_commits(repository, config, job, ordered, results)
        main = base
        bench, suite = ordered.bench or bench, replace(suite, name=ordered.suite or suite.name)
        config = config.model_copy(update={"settings": fix_pair_count(config.settings, ordered.pairs)})
    options = ComparisonOptions(
        suite.folder,
        bench,
        smoke,
        parse_time_budget(budget),
        False,
        False,
        None,
        None,
        default_only=suite.is_default_suite_only(bench),
    )
    ignored_files = config.settings.suite.ignored_files
    if repository.differ_only_in_ignored_files(base, head, ignored_files):
        click.echo("no file that the benchmarks can see differs: nothing to measure")
        reason = NotMeasuredReason.IDENTICAL
        _write_outputs(results, job, PullResults(config.project, base, head, not_measured=reason))
        return 0
    deadline = math.inf if options.budget_s is None else time.monotonic() + options.budget_s
    try:
        findings, comparison = measure_and_judge_commits(repository, config, base, head, options)
    except PerfciError as error:
        broken = PullResults(
            config.project, base, head, not_measured=NotMeasuredReason.BROKEN, detail=str(error)
        )
        _write_outputs(results, job, broken)
        raise
    write_commits_report(findings, options)
    sessions = comparison.session_uids
    if with_main and not repository.differ_only_in_ignored_files(base, main, ignored_files):
        findings, drift_sessions = _measure_base_drift(repository, config, findings, main, options)
        sessions = [*sessions, *drift_sessions]
    with closing(open_store_to_read(config)) as store:
        write_run_documents(results, store, sessions)
    findings = replace(findings, merge_base=ordered is None)
    artifact = PullResults(config.project, base, head, findings)
    write_pull_results(results, artifact)  # complete by itself, should profiling fail or time out
    profiled = profile_slowdowns(repository, config, findings, options, results / PROFILES_FOLDER, deadline)
    _write_outputs(results, job, replace(artifact, findings=replace(findings, profiled_cells=profiled)))
    return 4 if commits_exit_code(findings, comparison.statuses, strict=False) == 4 else 0


def _measure_base_drift(
    repository: GitRepository, config: Config, findings: Findings, main: Commit, options: ComparisonOptions
) -> tuple[Findings, Sequence[str]]:
    """Add the drift of the target branch and its sessions; unchanged findings if it cannot be measured."""
    click.echo(f"\ndrift of the target branch: {findings.base.short_sha} → {main.short_sha}")
    try:
        drift, comparison = measure_and_judge_commits(repository, config, findings.base, main, options)
    except PerfciError as error:
        click.echo(f"drift of the target branch could not be measured: {error}", err=True)
        return findings, ()
    write_commits_report(drift, options)
    return replace(findings, main_drift=drift.verdicts, main_head=main), comparison.session_uids


@github_group.command("report")
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
    help="result of the measuring job, when there are no results: ${{ needs.bench.result }}",
)
@click.option(
    "--author", default=ACTIONS_AUTHOR.login, show_default=True, help="the account that the token comments as"
)
@global_options
def report_command(results: Path, gate: GateMode, outcome: str, author: str) -> None:
    """Report RESULTS on the pull request: one comment, edited in place, and a check.

    GITHUB_TOKEN needs the permissions pull-requests: write and checks: write. GitHub's event names the pull
    request; results of another commit than its newest are rejected. Without results, the comment says so.
    When the measuring run has only begun, the comment on an older commit is marked as outdated. On a comment
    that accepts a regression, the results come from the artifacts of the repository.
    """
    config = current_config()
    job = require_github_job(config)
    token = require_github_token(job)
    artifact, client = read_pull_results_if_any(results), open_github_client(token, job.api_url)
    conclusion = outcome or get_workflow_run_conclusion(job)
    try:
        pulls = list_pulls_of_job(job, client)
        if not pulls:
            click.echo("this comment is not an accept command: nothing to do")
        for pull in pulls:
            line = _report_pull(job, config, client, CommentAuthor(author), pull, artifact, gate, conclusion)
            click.echo(line)
    except ReportOutdated as outdated:
        click.echo(str(outdated))


@github_group.command("announce")
@server_option
@global_options
def send_expected_changes_command(server: str) -> None:
    """Send the expected changes of merged pull requests to the server, after the push that merged them.

    Their regressions are then accepted up to the expected size. GITHUB_TOKEN needs the permission
    pull-requests: read, and the job `id-token: write`, or a token in PERFCI_TOKEN. Expected changes of
    authors without write access are not sent. Of a push of more than a hundred commits only the newest 100
    are checked.
    """
    config = current_config()
    job = require_github_job(config)
    address, token = resolve_server_url(config, server), require_github_token(job)
    pushed = list_commits_of_job(job)
    if len(pushed) > MAX_COMMITS_QUERIED:
        click.echo(f"of {len(pushed):,} pushed commits only the newest {MAX_COMMITS_QUERIED} are checked")
    client = open_github_client(token, job.api_url)
    merged = fetch_expected_changes_of_push(
        client, job.repository, pushed[:MAX_COMMITS_QUERIED], job.ref, job.sha
    )
    for change in merged:
        if not change.expected.is_authorized:
            effect = format_signed_percent(change.expected.change)
            click.echo(
                f"{change.source} expects {make_printable(change.expected.match)} {effect} "
                "but its author has no write access: skipped"
            )
    authorized = [change for change in merged if change.expected.is_authorized]
    if not authorized:
        click.echo(f"{job.sha[:12]}: no expected changes")
        return
    sent = send_expected_changes(config, address, authorized)
    already_stored = "" if sent == len(authorized) else ", the others were already stored"
    count = format_count(len(authorized), "expected change")
    click.echo(f"{job.sha[:12]}: {count} found, {sent} sent to {address}{already_stored}")


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
    """Update the report on one pull request, and return a line about it."""
    if is_workflow_run_in_progress(job):
        comment = mark_comment_outdated(client, author, pull, config.project)
        return f"{comment}: marked as outdated" if comment else "no comment on an older commit"
    results = artifact
    if results is None and is_comment_event(job):
        results = fetch_pull_results(client, pull)
        if results is None:
            name = f"{pull.repository}#{pull.number}"
            return f"{name}: no results are stored for {pull.head[:12]}: measure it again"
    if results is None:
        results = build_results_without_artifact(pull, config.project, outcome)
    page_url = build_comparison_page_url(config.settings.client.server, results) if results.findings else ""
    report = report_to_pull(
        client,
        author,
        pull,
        config.project,
        results,
        gate=gate,
        page_url=page_url,
        log_url=get_workflow_log_url(job),
    )
    return f"{report.comment_url or 'no comment needed'}: {', '.join(report.written) or 'nothing to change'}"


def require_github_job(config: Config) -> GitHubJob:
    """The job of GitHub Actions that this process runs in."""
    if config.github is None:
        raise PerfciError(
            "this is not a job of GitHub Actions: GITHUB_ACTIONS is not set; `perfci compare BASE HEAD` "
            "works anywhere"
        )
    return config.github


def require_github_token(job: GitHubJob) -> str:
    """The GITHUB_TOKEN of a job."""
    token = job.token.get_secret_value()
    if not token:
        raise PerfciError(
            "GITHUB_TOKEN is not set: pass it to this step with `env: GITHUB_TOKEN: ${{ github.token }}`"
        )
    return token


def _write_outputs(results: Path, job: GitHubJob, artifact: PullResults) -> None:
    """Write the results for the next job, and the summary and outputs of this one."""
    write_pull_results(results, artifact)
    write_job_summary_and_outputs(job, artifact)


def resolve_pull_commits(repository: GitRepository, pull: PullRef) -> tuple[Commit, Commit, Commit]:
    """The merge base, the newest commit of the pull request, and the newest of its target."""
    head, target = repository.resolve_revision(pull.head), repository.resolve_revision(pull.base)
    base = repository.find_merge_base(target, head)
    if base is None:
        raise PerfciError(
            f"#{pull.number} and its target branch have no commit in common in this clone: "
            "give actions/checkout `fetch-depth: 0`"
        )
    return repository.read_commit(base), repository.read_commit(head), repository.read_commit(target)


def _resolve_ordered_commits(
    repository: GitRepository, config: Config, job: GitHubJob, ordered: OrderedComparison, results: Path
) -> tuple[Commit, Commit]:
    """Base and head of an ordered comparison, which this clone has to have: nothing is fetched for it.

    Where it lacks one, that is what the order came to: measuring again would not help.
    """
    try:
        head = repository.resolve_revision(ordered.head)
        base = repository.resolve_revision(ordered.base or f"{head}~1")
    except PerfciError as error:
        if FULL_SHA.fullmatch(ordered.base) and FULL_SHA.fullmatch(ordered.head):
            sides = Commit(ordered.base), Commit(ordered.head)
            broken = PullResults(
                config.project, *sides, not_measured=NotMeasuredReason.BROKEN, detail=str(error)
            )
            _write_outputs(results, job, broken)
        raise
    return repository.read_commit(base), repository.read_commit(head)
