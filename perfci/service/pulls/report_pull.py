"""A pull request in a job of GitHub Actions: which commits it compares, and what it is to show of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perfci.config.github_job import GitHubJob
from perfci.github import accept_comment, webhook_events
from perfci.github.client import Client
from perfci.github.deliver_report import Delivered, deliver
from perfci.github.find_pulls import pulls_of_run
from perfci.github.publish_comment import age_comment
from perfci.github.pull_report import Author, Check, PullReport
from perfci.github.webhook_events import IssueCommentEvent, PullRequestEvent, PushEvent, WorkflowRunEvent
from perfci.model import Commit, PerfciError
from perfci.net.url_segments import segment
from perfci.report.escaping import printable
from perfci.report.pulls.check_result import Gate, State, check_title, conclusion, state_of, status_text
from perfci.report.pulls.comparison_findings import is_worse
from perfci.report.pulls.placeholder_comment import NotMeasured, not_measured, outdated
from perfci.report.pulls.pull_comment import comment, worth_a_comment
from perfci.service.expected_changes.read_pulls import announced_by
from perfci.service.pulls.read_artifact import left_in, newest_of_commit
from perfci.service.pulls.results_artifact import HandedOver

LONGEST_NAME = 100
"""Characters of a check's name; GitHub cuts longer ones where it lists them."""


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull request as GitHub itself names it: never taken from what a job made."""

    repository: str
    number: int
    base: str
    head: str


def pull_of(job: GitHubJob) -> Pull:
    """The pull request that a job was started for."""
    event = _event(job)
    if not isinstance(event, PullRequestEvent):
        raise PerfciError(
            f"this job was started by {job.event_name or 'nothing'}, a pull request was expected: "
            "let the workflow run `on: pull_request`, or name two commits to `perfci compare`"
        )
    proposed = event.pull_request
    return Pull(event.repository.full_name, event.number, proposed.base.sha, proposed.head.sha)


def pulls_of(job: GitHubJob, client: Client) -> list[Pull]:
    """The pull requests a job reports to: that of its event, or those of the workflow run that it follows."""
    event = _event(job)
    if isinstance(event, IssueCommentEvent):
        return _pull_talked_about(event, client)
    if not isinstance(event, WorkflowRunEvent):
        return [pull_of(job)]
    found = pulls_of_run(client, event.workflow_run)
    return [Pull(event.repository.full_name, one.number, one.base.sha, one.head.sha) for one in found]


def outcome_of(job: GitHubJob) -> str:
    """How the workflow run ended that this job follows, in GitHub's word; nothing where it follows none."""
    event = _event(job)
    return (event.workflow_run.conclusion or "") if isinstance(event, WorkflowRunEvent) else ""


def log_of(job: GitHubJob) -> str:
    """Where a person sees how it was measured: in the workflow run that this job follows, or in its own."""
    event = _event(job)
    followed = event.workflow_run if isinstance(event, WorkflowRunEvent) else None
    return job.url_of(followed.id, followed.run_attempt) if followed else job.url


def kept_of(client: Client, pull: Pull) -> HandedOver | None:
    """What was measured of a pull request's newest commit, as long as GitHub keeps it; nothing where there is none."""
    newest = newest_of_commit(client, pull.repository, pull.head)
    return left_in(client, pull.repository, newest, pull.head).handed if newest else None


def pushed_to(job: GitHubJob) -> list[str]:
    """The commits that a push brought, the newest first; of a job that something else started, its own."""
    event = _event(job)
    brought = [one.id for one in reversed(event.commits)] if isinstance(event, PushEvent) else []
    return list(dict.fromkeys([job.sha, *brought]))


def is_talk(job: GitHubJob) -> bool:
    """Whether somebody's comment started this job."""
    return isinstance(_event(job), IssueCommentEvent)


def nothing_of(pull: Pull, project: str, outcome: str) -> HandedOver:
    """What stands for results that never came: silence and calm must not look alike."""
    ending = NotMeasured.CANCELLED if outcome == "cancelled" else NotMeasured.BROKEN
    return HandedOver(project, Commit(pull.base), Commit(pull.head), ending=ending)


def is_only_begun(job: GitHubJob) -> bool:
    """Whether the workflow run that this job follows has not ended yet."""
    event = _event(job)
    return isinstance(event, WorkflowRunEvent) and event.action != "completed"


def age(client: Client, author: Author, pull: Pull, key: str) -> str:
    """Where a comment stands that told of an older commit and now says so."""
    newer = Commit(pull.head)
    return age_comment(client, author, pull.repository, pull.number, key, pull.head, lambda text: outdated(text, newer))


def tell(
    client: Client, author: Author, pull: Pull, key: str, handed: HandedOver, *, gate: Gate, page: str, log: str
) -> Delivered:
    """Bring comment and check of a pull request to what was measured; what is about another commit is refused."""
    if handed.head.sha != pull.head:
        raise PerfciError(
            f"what was measured is about {handed.head.sha[:12]} and {pull.repository}#{pull.number} is at "
            f"{pull.head[:12]}: nothing was written"
        )
    handed = _as_meant(client, pull, handed)
    return deliver(client, author, report_of(pull, key, handed, gate, page, log))


def report_of(pull: Pull, key: str, handed: HandedOver, gate: Gate, page: str, log: str) -> PullReport:
    """What a pull request is to show; ``key`` is the project as this side knows it, not as the results say."""
    text, found = told(handed, page, log), handed.outcome
    ended = conclusion(found, gate)
    check = Check(
        name="perfci" if key == pull.repository else printable(f"perfci/{key}", LONGEST_NAME),
        external_id=key,
        state="completed",
        title=check_title(found),
        summary=text,
        conclusion=ended.check,
        status=ended.status,
        line=status_text(found, gate),
        details_url=page or log,
    )
    opens = handed.findings is None or worth_a_comment(handed.findings)
    return PullReport(pull.repository, pull.number, pull.head, key, text, check, opens_comment=opens)


def told(handed: HandedOver, page: str = "", log: str = "") -> str:
    """Comment, summary of the check and summary of the job: the same text."""
    if handed.findings is not None:
        return comment(replace(handed.findings, page=page))
    assert handed.ending is not None
    return not_measured(handed.ending, handed.base, handed.head, detail=handed.detail, page=log)


def tell_job(job: GitHubJob, handed: HandedOver) -> None:
    """The same for whoever reads the job, and a word and a number for its other steps."""
    if job.summary:
        with job.summary.open("a", encoding="utf-8") as file:
            file.write(told(handed, log=job.url))
    if job.outputs:
        worse = sum(map(is_worse, handed.findings.verdicts)) if handed.findings else 0
        with job.outputs.open("a", encoding="utf-8") as file:
            file.write(f"verdict={state_of(handed.outcome)}\nregressions={worse}\n")


def page_of(server: str, handed: HandedOver) -> str:
    """Where the dashboard shows this comparison; nothing without a server."""
    if not server:
        return ""
    return f"{server.rstrip('/')}/{segment(handed.project)}/compare/{handed.base.sha}...{handed.head.sha}"


def _as_meant(client: Client, pull: Pull, handed: HandedOver) -> HandedOver:
    """What got worse may be meant: announced by the pull request, or accepted of this very commit."""
    if handed.findings is None or state_of(handed.findings) is not State.WORSE:
        return handed
    proposed = client.pull(pull.repository, pull.number)
    told = replace(handed.findings, announced=announced_by(client, pull.repository, proposed))
    if state_of(told) is State.WORSE:
        found = accept_comment.acceptance(client, pull.repository, pull.number, pull.head)
        told = replace(told, accept=accept_comment.command(pull.head), accepted=str(found) if found else "")
    return replace(handed, findings=told)


def _pull_talked_about(event: IssueCommentEvent, client: Client) -> list[Pull]:
    """The pull request of a comment that accepts something; nothing is to be done about any other."""
    if event.issue.pull_request is None or not accept_comment.asks_to_accept(event.comment.body):
        return []
    found = client.pull(event.repository.full_name, event.issue.number)
    return [Pull(event.repository.full_name, found.number, found.base.sha, found.head.sha)]


def _event(job: GitHubJob) -> webhook_events.Event | None:
    if job.event is None:
        raise PerfciError("GITHUB_EVENT_PATH is not set: a job of GitHub Actions tells there why it was started")
    try:
        return webhook_events.event(job.event_name, job.event.read_bytes())
    except OSError as error:
        raise PerfciError(f"the event {job.event} cannot be read: {error.strerror}") from None
