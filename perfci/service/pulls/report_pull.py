"""Report to pull requests from GitHub Actions: find the compared commits, write comment and check."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perfci.config.github_job import GitHubJob
from perfci.github import accept_comment, deliver_report, webhook_events
from perfci.github.client import GitHubClient
from perfci.github.deliver_report import DeliveryResult
from perfci.github.find_pulls import find_pulls_of_run
from perfci.github.pull_report import CheckReport, CommentAuthor, PullReport
from perfci.github.webhook_events import IssueCommentEvent, PullRequestEvent, PushEvent, WorkflowRunEvent
from perfci.model import Commit, PerfciError
from perfci.net.url_segments import encode_segment
from perfci.report.escaping import make_printable
from perfci.report.pulls.check_result import (
    CheckState,
    GateMode,
    decide_check_result,
    decide_check_state,
    format_check_title,
    format_status_description,
)
from perfci.report.pulls.comparison_findings import may_fail_check
from perfci.report.pulls.placeholder_comment import (
    NotMeasuredReason,
    render_not_measured_comment,
    render_outdated_comment,
)
from perfci.report.pulls.pull_comment import render_comment, should_comment
from perfci.service.expected_changes import fetch_expected_changes
from perfci.service.pulls.artifact_files import PullResults
from perfci.service.pulls.read_artifact import find_newest_for_commit, read_artifact

MAX_CHECK_NAME_LENGTH = 100
"""Characters of a check's name; GitHub truncates longer ones in lists."""


@dataclass(frozen=True, slots=True)
class PullRef:
    """A pull request identified by GitHub, never by data that a job produced."""

    repository: str
    number: int
    base: str
    head: str


def parse_pull(job: GitHubJob) -> PullRef:
    """Return the pull request that started a job."""
    event = _read_event(job)
    if not isinstance(event, PullRequestEvent):
        raise PerfciError(
            f"this job was started by {job.event_name or 'nothing'}, a pull request was expected: "
            "let the workflow run `on: pull_request`, or name two commits to `perfci compare`"
        )
    proposed = event.pull_request
    return PullRef(event.repository.full_name, event.number, proposed.base.sha, proposed.head.sha)


def list_pulls(job: GitHubJob, client: GitHubClient) -> list[PullRef]:
    """List the pull requests a job reports to: that of its event, or those of its workflow run."""
    event = _read_event(job)
    if isinstance(event, IssueCommentEvent):
        return _find_commented_pull(event, client)
    if not isinstance(event, WorkflowRunEvent):
        return [parse_pull(job)]
    pulls = find_pulls_of_run(client, event.workflow_run)
    return [PullRef(event.repository.full_name, pull.number, pull.base.sha, pull.head.sha) for pull in pulls]


def get_run_conclusion(job: GitHubJob) -> str:
    """Return GitHub's conclusion of the workflow run that this job follows; empty if it follows none."""
    event = _read_event(job)
    return (event.workflow_run.conclusion or "") if isinstance(event, WorkflowRunEvent) else ""


def get_log_url(job: GitHubJob) -> str:
    """Return the log URL of the measuring workflow run, or of this job."""
    event = _read_event(job)
    followed = event.workflow_run if isinstance(event, WorkflowRunEvent) else None
    return job.format_run_url(followed.id, followed.run_attempt) if followed else job.run_url


def fetch_results(client: GitHubClient, pull: PullRef) -> PullResults | None:
    """Fetch the results of the newest commit of a pull request; None if there is no artifact."""
    newest = find_newest_for_commit(client, pull.repository, pull.head)
    return read_artifact(client, pull.repository, newest, pull.head).results if newest else None


def list_pushed_commits(job: GitHubJob) -> list[str]:
    """List the commits of a push, newest first; for other events, the commit of the job."""
    event = _read_event(job)
    brought = [commit.id for commit in reversed(event.commits)] if isinstance(event, PushEvent) else []
    return list(dict.fromkeys([job.sha, *brought]))


def is_comment_event(job: GitHubJob) -> bool:
    """Return whether a comment started this job."""
    return isinstance(_read_event(job), IssueCommentEvent)


def build_missing_results(pull: PullRef, project: str, run_conclusion: str) -> PullResults:
    """Build the results of a run without an artifact, so that missing results are reported as such."""
    reason = NotMeasuredReason.CANCELLED if run_conclusion == "cancelled" else NotMeasuredReason.BROKEN
    return PullResults(project, Commit(pull.base), Commit(pull.head), not_measured=reason)


def is_run_in_progress(job: GitHubJob) -> bool:
    """Return whether the workflow run that this job follows is in progress."""
    event = _read_event(job)
    return isinstance(event, WorkflowRunEvent) and event.action != "completed"


def mark_comment_outdated(client: GitHubClient, author: CommentAuthor, pull: PullRef, key: str) -> str:
    """Mark a comment about an older commit as outdated; return its URL."""
    newer = Commit(pull.head)
    return deliver_report.mark_comment_outdated(
        client,
        author,
        pull.repository,
        pull.number,
        key,
        pull.head,
        lambda text: render_outdated_comment(text, newer),
    )


def report_to_pull(
    client: GitHubClient,
    author: CommentAuthor,
    pull: PullRef,
    key: str,
    results: PullResults,
    *,
    gate: GateMode,
    page_url: str,
    log_url: str,
) -> DeliveryResult:
    """Write the comment and the check of a pull request; results of another commit are refused."""
    if results.head.sha != pull.head:
        raise PerfciError(
            f"what was measured is about {results.head.sha[:12]} and {pull.repository}#{pull.number} is at "
            f"{pull.head[:12]}: nothing was written"
        )
    results = _apply_expected_changes(client, pull, results)
    return deliver_report.deliver_report(
        client, author, build_pull_report(pull, key, results, gate, page_url, log_url)
    )


def build_pull_report(
    pull: PullRef, key: str, results: PullResults, gate: GateMode, page_url: str, log_url: str
) -> PullReport:
    """Build the report of a pull request; ``key`` is the trusted project name, not that of the results."""
    text, outcome = render_results(results, page_url, log_url), results.outcome
    result = decide_check_result(outcome, gate)
    check = CheckReport(
        name="perfci" if key == pull.repository else make_printable(f"perfci/{key}", MAX_CHECK_NAME_LENGTH),
        external_id=key,
        state="completed",
        title=format_check_title(outcome),
        summary=text,
        conclusion=result.check,
        status=result.status,
        status_text=format_status_description(outcome, gate),
        details_url=page_url or log_url,
    )
    opens = results.findings is None or should_comment(results.findings)
    return PullReport(pull.repository, pull.number, pull.head, key, text, check, may_create_comment=opens)


def render_results(results: PullResults, page_url: str = "", log_url: str = "") -> str:
    """Render the text of the comment, the check summary and the job summary."""
    if results.findings is not None:
        return render_comment(replace(results.findings, report_url=page_url))
    assert results.not_measured is not None
    return render_not_measured_comment(
        results.not_measured, results.base, results.head, detail=results.detail, page=log_url
    )


def write_job_summary(job: GitHubJob, results: PullResults) -> None:
    """Append the summary of a job and write its outputs ``verdict`` and ``regressions``."""
    if job.summary:
        with job.summary.open("a", encoding="utf-8") as file:
            file.write(render_results(results, log_url=job.run_url))
    if job.outputs:
        worse = sum(map(may_fail_check, results.findings.verdicts)) if results.findings else 0
        with job.outputs.open("a", encoding="utf-8") as file:
            file.write(f"verdict={decide_check_state(results.outcome)}\nregressions={worse}\n")


def build_page_url(server: str, results: PullResults) -> str:
    """Return the page URL of a comparison; empty without a server."""
    if not server:
        return ""
    project, base, head = encode_segment(results.project), results.base.sha, results.head.sha
    return f"{server.rstrip('/')}/{project}/compare/{base}...{head}"


def _apply_expected_changes(client: GitHubClient, pull: PullRef, results: PullResults) -> PullResults:
    """Add expected changes and acceptances of the pull request to results with regressions."""
    if results.findings is None or decide_check_state(results.findings) is not CheckState.WORSE:
        return results
    proposed = client.get_pull(pull.repository, pull.number)
    findings = replace(
        results.findings, expected_changes=fetch_expected_changes(client, pull.repository, proposed)
    )
    if decide_check_state(findings) is CheckState.WORSE:
        acceptance = accept_comment.find_acceptance(client, pull.repository, pull.number, pull.head)
        findings = replace(
            findings,
            accept_command=accept_comment.format_accept_command(pull.head),
            acceptance=str(acceptance) if acceptance else "",
        )
    return replace(results, findings=findings)


def _find_commented_pull(event: IssueCommentEvent, client: GitHubClient) -> list[PullRef]:
    """Return the pull request of an acceptance comment; empty for other comments."""
    if event.issue.pull_request is None or not accept_comment.is_accept_request(event.comment.body):
        return []
    pull = client.get_pull(event.repository.full_name, event.issue.number)
    return [PullRef(event.repository.full_name, pull.number, pull.base.sha, pull.head.sha)]


def _read_event(job: GitHubJob) -> webhook_events.WebhookEvent | None:
    if job.event is None:
        raise PerfciError(
            "GITHUB_EVENT_PATH is not set: GitHub Actions sets it to the event that started the job"
        )
    try:
        return webhook_events.parse_event(job.event_name, job.event.read_bytes())
    except OSError as error:
        raise PerfciError(f"the event {job.event} cannot be read: {error.strerror}") from None
