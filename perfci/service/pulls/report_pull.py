"""Report measured results to pull requests: the comment, the check and the job summary."""

from __future__ import annotations

from dataclasses import replace

from perfci.config.github_job import GitHubJob
from perfci.github import accept_comment, deliver_report
from perfci.github.client import GitHubClient
from perfci.github.deliver_report import DeliveryResult
from perfci.github.pull_report import CheckReport, CommentAuthor, PullReport
from perfci.model import Commit, PerfciError
from perfci.net.url_segments import encode_segment
from perfci.report.escaping import make_printable
from perfci.report.pulls.check_result import (
    CheckState,
    GateMode,
    classify_findings,
    decide_check_result,
    format_check_title,
    format_status_description,
)
from perfci.report.pulls.comparison_findings import may_fail_check
from perfci.report.pulls.not_measured_comment import NotMeasuredReason, render_not_measured_comment
from perfci.report.pulls.order_lines import replace_order_lines
from perfci.report.pulls.outdated_comment import render_outdated_comment
from perfci.report.pulls.pull_comment import render_pull_comment, should_comment
from perfci.service.pulls.download_results_artifact import download_results_artifact, find_artifact_of_commit
from perfci.service.pulls.expected_changes import authorize_expected_changes
from perfci.service.pulls.job_trigger_event import PullRef
from perfci.service.pulls.results_artifact_files import PullResults

MAX_CHECK_NAME_LENGTH = 100
"""Characters of a check's name; GitHub truncates longer ones in lists."""


def fetch_pull_results(client: GitHubClient, pull: PullRef) -> PullResults | None:
    """Fetch the results of the newest commit of a pull request; None if there is no artifact."""
    newest = find_artifact_of_commit(client, pull.repository, pull.head)
    return download_results_artifact(client, pull.repository, newest, pull.head).results if newest else None


def build_results_without_artifact(pull: PullRef, project: str, run_conclusion: str) -> PullResults:
    """Build the results of a run without an artifact, so that missing results are reported as such."""
    reason = NotMeasuredReason.CANCELLED if run_conclusion == "cancelled" else NotMeasuredReason.BROKEN
    return PullResults(project, Commit(pull.base), Commit(pull.head), not_measured=reason)


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
    order_lines: str = "",
) -> DeliveryResult:
    """Write the comment and the check of a pull request; results of another commit are refused.

    ``order_lines`` stand on top of the comment.
    """
    if results.head.sha != pull.head:
        raise PerfciError(
            f"what was measured is about {results.head.sha[:12]} and {pull.repository}#{pull.number} is at "
            f"{pull.head[:12]}: nothing was written"
        )
    results = _apply_expected_changes(client, pull, results)
    return deliver_report.deliver_report(
        client, author, build_pull_report(pull, key, results, gate, page_url, log_url, order_lines)
    )


def build_pull_report(
    pull: PullRef,
    key: str,
    results: PullResults,
    gate: GateMode,
    page_url: str,
    log_url: str,
    order_lines: str = "",
) -> PullReport:
    """Build the report of a pull request; ``key`` is the trusted project name, not that of the results."""
    text, outcome = render_results_markdown(results, page_url, log_url), results.findings_or_reason
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
    opens = results.findings is None or should_comment(results.findings) or bool(order_lines)
    comment = replace_order_lines(text, order_lines)
    return PullReport(pull.repository, pull.number, pull.head, key, comment, check, may_create_comment=opens)


def render_results_markdown(results: PullResults, page_url: str = "", log_url: str = "") -> str:
    """Render the text of the comment, the check summary and the job summary."""
    if results.findings is not None:
        return render_pull_comment(replace(results.findings, report_url=page_url))
    assert results.not_measured is not None
    return render_not_measured_comment(
        results.not_measured, results.base, results.head, detail=results.detail, page=log_url
    )


def write_job_summary_and_outputs(job: GitHubJob, results: PullResults) -> None:
    """Append the summary of a job and write its outputs ``verdict`` and ``regressions``."""
    if job.summary:
        with job.summary.open("a", encoding="utf-8") as file:
            file.write(render_results_markdown(results, log_url=job.workflow_run_url))
    if job.outputs:
        worse = sum(map(may_fail_check, results.findings.primary_verdicts)) if results.findings else 0
        with job.outputs.open("a", encoding="utf-8") as file:
            file.write(f"verdict={classify_findings(results.findings_or_reason)}\nregressions={worse}\n")


def build_comparison_page_url(server: str, results: PullResults) -> str:
    """Return the page URL of a comparison; empty without a server."""
    return format_comparison_page_url(server, results.project, results.base.sha, results.head.sha)


def format_comparison_page_url(server: str, project: str, base: str, head: str) -> str:
    """Format the page URL of the comparison of two commits; empty without a server."""
    return f"{server.rstrip('/')}/{encode_segment(project)}/compare/{base}...{head}" if server else ""


def _apply_expected_changes(client: GitHubClient, pull: PullRef, results: PullResults) -> PullResults:
    """Add expected changes and acceptances of the pull request to results with regressions."""
    if results.findings is None or classify_findings(results.findings) is not CheckState.WORSE:
        return results
    proposed = client.get_pull(pull.repository, pull.number)
    findings = replace(
        results.findings,
        expected_changes=authorize_expected_changes(client, pull.repository, proposed),
    )
    if classify_findings(findings) is CheckState.WORSE:
        acceptance = accept_comment.find_acceptance(client, pull.repository, pull.number, pull.head)
        findings = replace(
            findings,
            accept_command=accept_comment.format_accept_command(pull.head),
            acceptance=str(acceptance) if acceptance else "",
        )
    return replace(results, findings=findings)
