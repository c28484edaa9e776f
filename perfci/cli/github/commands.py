"""``perfci github``: what a pull request's job measures, and what the pull request is told of it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import click

from perfci.cli.compare.commands import exit_code, measured, seconds
from perfci.cli.compare.commands import report as print_report
from perfci.cli.compare.variants import Asked
from perfci.cli.github.slowdown_profiles import profile_sides
from perfci.cli.shared.context import config_for, config_here, repository_here, store_to_read
from perfci.cli.shared.flush_report import server_option
from perfci.cli.shared.options import bench_option, global_options, smoke_option, suite_option
from perfci.config import Config
from perfci.config.github_job import GitHubJob
from perfci.github.client import Client, connect
from perfci.github.pull_report import ACTIONS, Author, Overtaken
from perfci.model import Commit, PerfciError
from perfci.report.escaping import printable
from perfci.report.number_format import counting, signed_percent
from perfci.report.pulls.check_result import Gate
from perfci.report.pulls.comparison_findings import Findings
from perfci.report.pulls.placeholder_comment import NotMeasured
from perfci.runner.git_repository import Repository
from perfci.service.expected_changes.read_pulls import brought_by
from perfci.service.pulls.read_artifact import RESULTS
from perfci.service.pulls.report_pull import (
    Pull,
    age,
    is_only_begun,
    is_talk,
    kept_of,
    log_of,
    nothing_of,
    outcome_of,
    page_of,
    pull_of,
    pulls_of,
    pushed_to,
    tell,
    tell_job,
)
from perfci.service.pulls.results_artifact import HandedOver, hand_over, hand_over_runs, take_over
from perfci.service.uploads.send_runs import server_of, tell_announced

PROFILES = "profiles"

MOST_ASKED = 100
"""Commits of a push whose pull requests GitHub is asked for: it answers a job a thousand times an hour."""

results_option = click.option(
    "--results", type=click.Path(path_type=Path), default=Path(RESULTS), show_default=True, metavar="DIR",
    help="the folder that one job hands to the other",
)  # fmt: skip


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
def compare(suite: Path | None, bench: str, smoke: bool, budget: str, with_main: bool, results: Path) -> int:
    """Measure the job's pull request against its merge base, and leave what came of it in a folder.

    A pull request that changes no file the benchmarks can see ([suite] unseen) is not measured. The job's summary and
    outputs tell the verdict; a regression does not fail this job, the check that `perfci github report` sets may.
    What got slower most is profiled at both sides, as long as there is time, and the profiles are left there as well.
    Both sides are always measured, pair by pair: results of another day know nothing of this one's machine.

    Exit code 0 compared or nothing to compare, 2 usage, 4 nothing measured.
    """
    asked = Asked(suite, bench, smoke, seconds(budget) if budget else None, False, False, None, None)
    repository = repository_here()
    config = config_for(repository)
    job = the_job(config)
    base, head, main = sides(repository, pull_of(job))
    unseen = config.settings.suite.unseen
    if repository.look_alike(base, head, unseen):
        click.echo("no file that the benchmarks can see differs: nothing to measure")
        _finish(results, job, HandedOver(config.project, base, head, ending=NotMeasured.IDENTICAL))
        return 0
    until = math.inf if asked.budget_s is None else time.monotonic() + asked.budget_s
    try:
        found, measurement = measured(repository, config, base, head, asked)
    except PerfciError as error:
        _finish(results, job, HandedOver(config.project, base, head, ending=NotMeasured.BROKEN, detail=str(error)))
        raise
    print_report(found, asked)
    sessions = measurement.sessions
    if with_main and not repository.look_alike(base, main, unseen):
        found, more = _beside(repository, config, found, main, asked)
        sessions = [*sessions, *more]
    with closing(store_to_read(config)) as store:
        hand_over_runs(results, store, sessions)
    handed = HandedOver(config.project, base, head, replace(found, merge_base=True))
    hand_over(results, handed)  # whatever becomes of the profiles
    profiled = profile_sides(repository, config, found, asked, results / PROFILES, until)
    _finish(results, job, replace(handed, findings=replace(found, merge_base=True, profiled=profiled)))
    return 4 if exit_code(found, measurement.statuses, strict=False) == 4 else 0


def _beside(
    repository: Repository, config: Config, found: Findings, main: Commit, asked: Asked
) -> tuple[Findings, Sequence[str]]:
    """Findings with what main did since the same base, and the sessions of that; as they are where that breaks."""
    click.echo(f"\nwhat main did since: {found.base.short} → {main.short}")
    try:
        drift, drifting = measured(repository, config, found.base, main, asked)
    except PerfciError as error:
        click.echo(f"what main did since is not known: {error}", err=True)
        return found, ()
    print_report(drift, asked)
    return replace(found, drift=drift.verdicts, main=main), drifting.sessions


@command.command("report")
@click.argument("results", type=click.Path(path_type=Path), default=Path(RESULTS))
@click.option("--gate", type=click.Choice(["advisory", "block"]), default="advisory", show_default=True,
              help="whether a regression turns the check red")  # fmt: skip
@click.option("--outcome", default="", metavar="WORD",
              help="how the measuring job ended, where it left no results: ${{ needs.bench.result }}")  # fmt: skip
@click.option("--author", default=ACTIONS.login, show_default=True, help="under whose name the token comments")
@global_options
def report(results: Path, gate: Gate, outcome: str, author: str) -> None:
    """Tell the pull request what RESULTS hold: one comment, edited in place, and a check.

    The token is GITHUB_TOKEN, with the permissions pull-requests: write and checks: write. Which pull request it is,
    GitHub says; what is about another commit than its newest is refused. Where there are no results, it says so;
    where the workflow run that it follows has only begun, it says of a comment on an older commit that it is one;
    where somebody's comment accepts what got worse, it takes what was measured from the artifacts of the repository.
    """
    config = config_here()
    job = the_job(config)
    token = the_token(job)
    handed, client = take_over(results), connect(token, job.api_url)
    try:
        pulls = pulls_of(job, client)
        if not pulls:
            click.echo("this comment accepts nothing of a pull request: nothing to do")
        for pull in pulls:
            click.echo(_told(job, config, client, Author(author), pull, handed, gate, outcome or outcome_of(job)))
    except Overtaken as gone:
        click.echo(str(gone))


@command.command("announce")
@server_option
@global_options
def announce(server: str) -> None:
    """Tell the server what the pull requests announced that this push brought to its branch.

    What their change costs is accepted by itself then, as far as it was announced. GITHUB_TOKEN needs the permission
    pull-requests: read, and the job `id-token: write`, or a token in PERFCI_TOKEN. What somebody announced who may not
    write to the repository is not sent. Of a push of more than a hundred commits the newest hundred are looked at.
    """
    config = config_here()
    job = the_job(config)
    address, token = server_of(config, server), the_token(job)
    pushed = pushed_to(job)
    if len(pushed) > MOST_ASKED:
        click.echo(f"of {len(pushed):,} commits that were pushed the newest {MOST_ASKED} are looked at")
    client = connect(token, job.api_url)
    arrived = brought_by(client, job.repository, pushed[:MOST_ASKED], job.ref, job.sha)
    counted = [one for one in arrived if one.announcement.counts]
    for one in arrived:
        if one not in counted:
            what = f"{printable(one.announcement.match)} {signed_percent(one.announcement.change)}"
            click.echo(f"{one.source} announces {what} and was opened by somebody who may not write here: left out")
    if not counted:
        click.echo(f"{job.sha[:12]}: nothing was announced")
        return
    told = tell_announced(config, address, counted)
    known = "" if told == len(counted) else ", which knew the others"
    click.echo(f"{job.sha[:12]}: {counting(len(counted), 'announcement')} found, {told} told to {address}{known}")


def _told(
    job: GitHubJob, config: Config, client: Client, author: Author, pull: Pull, handed: HandedOver | None, gate: Gate,
    outcome: str,
) -> str:  # fmt: skip
    """Do what there is to do about one pull request, and say it in a line."""
    if is_only_begun(job):
        aged = age(client, author, pull, config.project)
        return f"{aged}: told to be of an older commit" if aged else "no comment on an older commit"
    shown = handed or (kept_of(client, pull) if is_talk(job) else nothing_of(pull, config.project, outcome))
    if shown is None:
        return f"{pull.repository}#{pull.number}: no results of {pull.head[:12]} are kept: measure it again"
    page = page_of(config.settings.client.server, shown) if shown.findings else ""
    one = tell(client, author, pull, config.project, shown, gate=gate, page=page, log=log_of(job))
    return f"{one.comment_url or 'no comment needed'}: {', '.join(one.written) or 'nothing to change'}"


def the_job(config: Config) -> GitHubJob:
    if config.github is None:
        raise PerfciError(
            "this is no job of GitHub Actions: GITHUB_ACTIONS is not set; `perfci compare BASE HEAD` works anywhere"
        )
    return config.github


def the_token(job: GitHubJob) -> str:
    token = job.token.get_secret_value()
    if not token:
        raise PerfciError("GITHUB_TOKEN is not set: hand it to this step with `env: GITHUB_TOKEN: ${{ github.token }}`")
    return token


def _finish(results: Path, job: GitHubJob, handed: HandedOver) -> None:
    """Leave everything where the next job, the reader of this one and its other steps look for it."""
    hand_over(results, handed)
    tell_job(job, handed)


def sides(repository: Repository, pull: Pull) -> tuple[Commit, Commit, Commit]:
    """The commit where the pull request left its target, its newest one, and the newest of the target."""
    head, target = repository.resolve(pull.head), repository.resolve(pull.base)
    base = repository.merge_base(target, head)
    if base is None:
        raise PerfciError(
            f"#{pull.number} and the branch it goes to have no commit in common in this clone: "
            "give actions/checkout `fetch-depth: 0`"
        )
    return repository.commit(base), repository.commit(head), repository.commit(target)
