"""Pull requests: the verdict on what one uploaded, compared with recent runs of the main branch."""

from __future__ import annotations

from perfci.auth.permissions import AccessRequirement
from perfci.net.api_schemas import pull_requests as shapes
from perfci.project_policies import build_project_policies
from perfci.report.pulls.check_result import classify_findings, format_check_title
from perfci.report.pulls.pull_comment import render_pull_comment
from perfci.service.pulls.report_uploads import UploadReport, load_upload_report
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply
from perfci_web.api.problem_details import ProblemError


def get_pull_request_verdict(call: Call) -> Reply:
    """Return what the judge worker decided; nothing is computed here."""
    query: shapes.PullRequestVerdictQuery = call.query
    project = call.required_project
    policy = build_project_policies(call.settings, project).policy
    number = call.path["pull_request"]
    with call.store.read() as tx:
        report = load_upload_report(tx, project.slug, str(number), policy, query.head)
    if report is None:
        raise ProblemError("not-found", "No upload of this pull request is here.")
    return Reply(_build_verdict_payload(number, report))


def _build_verdict_payload(number: int, report: UploadReport) -> shapes.PullRequestVerdictShape:
    fields: dict[str, object] = {
        "number": number,
        "head": report.head,
        "uploads": report.uploads,
        "pending": report.is_pending,
    }
    if findings := report.findings:
        fields |= {
            "base": findings.base.sha,
            "state": classify_findings(findings).name.lower(),
            "title": format_check_title(findings),
            "markdown": render_pull_comment(findings),
        }
    return shapes.PullRequestVerdictShape.model_validate(fields)


OPERATIONS = (
    Operation(
        "get_pull_request_verdict",
        "GET",
        f"{PROJECT_RULE}/pull-requests/<number:pull_request>/verdict",
        AccessRequirement.READ,
        get_pull_request_verdict,
        "The verdict on what a pull request uploaded, with its comment",
        query=shapes.PullRequestVerdictQuery,
        answers={200: shapes.PullRequestVerdictShape},
        etag=True,
    ),
)
