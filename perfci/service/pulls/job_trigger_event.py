"""The event that started a GitHub Actions job: its pull requests, commits and workflow run."""

from __future__ import annotations

from dataclasses import dataclass

from perfci.config.github_job import GitHubJob
from perfci.github import accept_comment, webhook_events
from perfci.github.client import GitHubClient
from perfci.github.pulls_of_workflow_run import find_open_pulls_of_run
from perfci.github.webhook_events import (
    IssueCommentEvent,
    PullRequestEvent,
    PushEvent,
    WorkflowDispatchEvent,
    WorkflowRunEvent,
)
from perfci.model import PerfciError
from perfci.service.orders.check_order_content import (
    SUITES,
    check_bench_expression,
    check_pair_count,
)


@dataclass(frozen=True, slots=True)
class PullRef:
    """A pull request identified by GitHub, never by data that a job produced."""

    repository: str
    number: int
    base: str
    head: str


@dataclass(frozen=True, slots=True)
class OrderedComparison:
    """What a workflow that was started by hand is to compare; base and head are revisions of the clone.

    An empty ``base`` is the commit before the head.
    """

    base: str
    head: str
    bench: str = ""
    pairs: int | None = None
    suite: str = ""


def get_ordered_comparison(job: GitHubJob) -> OrderedComparison | None:
    """Return the comparison that somebody started this job for; None for a job of a pull request.

    The inputs are checked here: no expression of a workflow and no shell ever sees them.
    """
    event = _read_event(job)
    if not isinstance(event, WorkflowDispatchEvent):
        return None
    inputs = {name: (text or "").strip() for name, text in (event.inputs or {}).items()}
    head, bench, suite = inputs.get("head", ""), inputs.get("bench", ""), inputs.get("suite", "")
    if not head:
        raise PerfciError(
            "this job was started by hand without the input head: name the commit that is to be compared"
        )
    check_bench_expression(bench)
    if suite not in SUITES:
        raise PerfciError(f"the input suite is one of default and full, or nothing, not {suite[:80]!r}")
    return OrderedComparison(
        inputs.get("base", ""), head, bench, _parse_pair_count(inputs.get("pairs", "")), suite
    )


def get_pull_of_job(job: GitHubJob) -> PullRef:
    """Return the pull request that started a job."""
    event = _read_event(job)
    if not isinstance(event, PullRequestEvent):
        raise PerfciError(
            f"this job was started by {job.event_name or 'nothing'}, a pull request was expected: "
            "let the workflow run `on: pull_request`, or name two commits to `perfci compare`"
        )
    proposed = event.pull_request
    return PullRef(event.repository.full_name, event.number, proposed.base.sha, proposed.head.sha)


def list_pulls_of_job(job: GitHubJob, client: GitHubClient) -> list[PullRef]:
    """List the pull requests a job reports to: that of its event, or those of its workflow run."""
    event = _read_event(job)
    if isinstance(event, IssueCommentEvent):
        return _find_commented_pull(event, client)
    if not isinstance(event, WorkflowRunEvent):
        return [get_pull_of_job(job)]
    pulls = find_open_pulls_of_run(client, event.workflow_run)
    return [PullRef(event.repository.full_name, pull.number, pull.base.sha, pull.head.sha) for pull in pulls]


def get_workflow_run_conclusion(job: GitHubJob) -> str:
    """Return GitHub's conclusion of the workflow run that this job follows; empty if it follows none."""
    event = _read_event(job)
    return (event.workflow_run.conclusion or "") if isinstance(event, WorkflowRunEvent) else ""


def get_workflow_log_url(job: GitHubJob) -> str:
    """Return the log URL of the measuring workflow run, or of this job."""
    event = _read_event(job)
    followed = event.workflow_run if isinstance(event, WorkflowRunEvent) else None
    return (
        job.format_workflow_run_url(followed.id, followed.run_attempt) if followed else job.workflow_run_url
    )


def list_commits_of_job(job: GitHubJob) -> list[str]:
    """List the commits of a push, newest first; for other events, the commit of the job."""
    event = _read_event(job)
    brought = [commit.id for commit in reversed(event.commits)] if isinstance(event, PushEvent) else []
    return list(dict.fromkeys([job.sha, *brought]))


def is_comment_event(job: GitHubJob) -> bool:
    """Return whether a comment started this job."""
    return isinstance(_read_event(job), IssueCommentEvent)


def is_workflow_run_in_progress(job: GitHubJob) -> bool:
    """Return whether the workflow run that this job follows is in progress."""
    event = _read_event(job)
    return isinstance(event, WorkflowRunEvent) and event.action != "completed"


def _parse_pair_count(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 5):
        raise PerfciError(f"the input pairs is a number, not {text[:80]!r}")
    check_pair_count(int(text))
    return int(text)


def _find_commented_pull(event: IssueCommentEvent, client: GitHubClient) -> list[PullRef]:
    """Return the pull request of an acceptance comment; empty for other comments."""
    if event.issue.pull_request is None or not accept_comment.is_accept_comment(event.comment.body):
        return []
    pull = client.get_pull(event.repository.full_name, event.issue.number)
    return [PullRef(event.repository.full_name, pull.number, pull.base.sha, pull.head.sha)]


def _read_event(job: GitHubJob) -> webhook_events.WebhookEvent | None:
    if job.event is None:
        raise PerfciError(
            "GITHUB_EVENT_PATH is not set: GitHub Actions sets it to the event that started the job"
        )
    try:
        return webhook_events.parse_webhook_event(job.event_name, job.event.read_bytes())
    except OSError as error:
        raise PerfciError(f"the event {job.event} cannot be read: {error.strerror}") from None
