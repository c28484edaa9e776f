"""The typed client of perfci's API: one method for each operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from perfci.model import PerfciError
from perfci.net.api_schemas import Page, ProblemDetails
from perfci.net.api_schemas.archived_series import (
    ArchiveChange,
    ArchivedSeriesPage,
    ArchivedSeriesShape,
    ArchiveResult,
)
from perfci.net.api_schemas.chart_notes import ChartNotePage, ChartNoteShape, NewChartNote
from perfci.net.api_schemas.commits_machines_environments import (
    CommitPage,
    CommitShape,
    EnvironmentPage,
    EnvironmentShape,
    MachinePage,
    MachineShape,
)
from perfci.net.api_schemas.incidents import IncidentDetailShape, IncidentPage, IncidentPatch, IncidentShape
from perfci.net.api_schemas.invalid_marks import InvalidMarkPage, InvalidMarkShape
from perfci.net.api_schemas.measurement_orders import (
    ClaimedOrder,
    IncidentOrder,
    NewOrder,
    NewOrderResult,
    OrderClaim,
    OrderFailure,
    OrderFindings,
    OrderFinish,
    OrderHeartbeat,
    OrderLeaseShape,
    OrderPage,
    OrderRelease,
    OrderShape,
)
from perfci.net.api_schemas.monitoring import ChartedPointsShape
from perfci.net.api_schemas.projects_and_access import (
    CreatedToken,
    NewProject,
    NewRepositoryBinding,
    NewToken,
    ProjectMemberPage,
    ProjectMemberShape,
    ProjectPage,
    ProjectPatch,
    ProjectShape,
    RepositoryBindingShape,
    RoleAssignment,
    TokenPage,
    TokenShape,
    Visibility,
)
from perfci.net.api_schemas.pull_requests import PullRequestVerdictShape
from perfci.net.api_schemas.renames import NewRename, RenameList, RenameResult, RenameShape
from perfci.net.api_schemas.runs import RunPage, RunShape, UploadReceipt
from perfci.net.api_schemas.series import SeriesPage, SeriesPointsShape, SeriesShape
from perfci.net.api_schemas.suite_reporting_schedules import (
    ReportingScheduleChange,
    ReportingSchedulePage,
    ReportingScheduleShape,
)
from perfci.net.api_schemas.unresolved_results import (
    MetricMeaning,
    ResolvedResults,
    UnresolvedResultPage,
    UnresolvedResultShape,
)
from perfci.net.api_schemas.verdicts_and_expected_changes import (
    AddedExpectedChanges,
    ComparisonPage,
    ExpectedChangePage,
    ExpectedChangeShape,
    NewExpectedChanges,
    ResultSummaryPage,
    ResultSummaryShape,
    VerdictDetailShape,
    VerdictPage,
    VerdictShape,
)
from perfci.net.url_segments import encode_segment

T = TypeVar("T", bound=BaseModel)

API_PREFIX = "/api/v1"


class ServerUnreachable(PerfciError):
    """No response came, so it is unknown whether the request arrived."""


class ApiError(PerfciError):
    """An error response of the server."""

    def __init__(self, message: str, *, status: int, body: bytes, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.status, self.body, self.retry_after_s = status, body, retry_after_s

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status == 429 or self.status >= 500


class ApiClient:
    """Client of one server; ``http`` knows its address and the token."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    @property
    def server_url(self) -> str:
        return str(self._http.base_url).rstrip("/")

    def close(self) -> None:
        self._http.close()

    def upload_run(self, compressed_body: bytes, key: str) -> UploadReceipt:
        """Upload a gzip run document; the same document twice is one run."""
        about = {"Content-Type": "application/json", "Content-Encoding": "gzip", "Idempotency-Key": key}
        return self._request(UploadReceipt, "POST", "/runs", content=compressed_body, headers=about)

    def list_projects(self) -> list[ProjectShape]:
        return list(self._list_all(ProjectPage, "/projects"))

    def get_project(self, project: str) -> ProjectShape:
        return self._request(ProjectShape, "GET", _project_path(project))

    def create_project(self, project: str, visibility: Visibility = "private") -> ProjectShape:
        body = NewProject(project=project, visibility=visibility)
        return self._request(ProjectShape, "POST", "/projects", json=body.model_dump())

    def change_project(self, project: str, change: ProjectPatch) -> ProjectShape:
        body = change.model_dump(mode="json", exclude_none=True)
        return self._request(ProjectShape, "PATCH", _project_path(project), json=body)

    def list_runs(self, project: str, **filters: Any) -> Iterator[RunShape]:
        return self._list_all(RunPage, f"{_project_path(project)}/runs", **filters)

    def get_run(self, project: str, key: str) -> bytes:
        """Get a whole run as a ``perfci.run/1`` document."""
        return self._send("GET", f"{_project_path(project)}/runs/{key}").content

    def list_series(self, project: str, **filters: Any) -> Iterator[SeriesShape]:
        return self._list_all(SeriesPage, f"{_project_path(project)}/series", **filters)

    def get_series_points(self, project: str, series: str, **filters: Any) -> SeriesPointsShape:
        return self._request(
            SeriesPointsShape,
            "GET",
            f"{_project_path(project)}/series/{series}/points",
            params=_drop_none(filters),
        )

    def list_points_of_many_series(self, project: str, **filters: Any) -> ChartedPointsShape:
        path = f"{_project_path(project)}/points"
        return self._request(ChartedPointsShape, "GET", path, params=_drop_none(filters))

    def list_commits(self, project: str, **filters: Any) -> Iterator[CommitShape]:
        return self._list_all(CommitPage, f"{_project_path(project)}/commits", **filters)

    def get_commit(self, project: str, sha: str) -> CommitShape:
        return self._request(CommitShape, "GET", f"{_project_path(project)}/commits/{encode_segment(sha)}")

    def list_machines(self, project: str) -> Iterator[MachineShape]:
        return self._list_all(MachinePage, f"{_project_path(project)}/machines")

    def list_environments(self, project: str) -> Iterator[EnvironmentShape]:
        return self._list_all(EnvironmentPage, f"{_project_path(project)}/environments")

    def get_comparison_summary(self, project: str, base: str, head: str, **filters: Any) -> ComparisonPage:
        """Get the verdict counts between two commits, with the first verdicts, worst first."""
        return self._request(
            ComparisonPage, "GET", _comparison_path(project, base, head), params=_drop_none(filters)
        )

    def get_pull_request_verdict(self, project: str, number: int, head: str = "") -> PullRequestVerdictShape:
        """Get the verdict on what a head of a pull request uploaded, by default the newest."""
        path = f"{_project_path(project)}/pull-requests/{number}/verdict"
        return self._request(PullRequestVerdictShape, "GET", path, params={"head": head} if head else {})

    def list_comparison_verdicts(
        self, project: str, base: str, head: str, **filters: Any
    ) -> Iterator[VerdictShape]:
        """List all verdicts between two commits, worst first."""
        return self._list_all(ComparisonPage, _comparison_path(project, base, head), **filters)

    def list_levels_at_two_commits(
        self, project: str, base: str, head: str, **filters: Any
    ) -> Iterator[ResultSummaryShape]:
        """List the result summaries of every series at two commits, compared or not."""
        path = f"{_comparison_path(project, base, head)}/summaries"
        return self._list_all(ResultSummaryPage, path, **filters)

    def list_verdicts(self, project: str, **filters: Any) -> Iterator[VerdictShape]:
        return self._list_all(VerdictPage, f"{_project_path(project)}/verdicts", **filters)

    def get_verdict(self, project: str, number: int) -> VerdictDetailShape:
        return self._request(VerdictDetailShape, "GET", f"{_project_path(project)}/verdicts/{number}")

    def list_incidents(self, project: str, **filters: Any) -> Iterator[IncidentShape]:
        return self._list_all(IncidentPage, f"{_project_path(project)}/incidents", **filters)

    def get_incident(self, project: str, number: int) -> IncidentDetailShape:
        return self._request(IncidentDetailShape, "GET", f"{_project_path(project)}/incidents/{number}")

    def change_incident(
        self, project: str, number: int, change: IncidentPatch, revision: int
    ) -> IncidentDetailShape:
        """Change an incident of a known revision; ``ApiError`` with 412 if it has changed since."""
        return self._request(
            IncidentDetailShape,
            "PATCH",
            f"{_project_path(project)}/incidents/{number}",
            json=change.model_dump(mode="json", exclude_unset=True),
            headers={"If-Match": f'"{revision}"'},
        )

    def undo_incident_change(self, project: str, number: int, revision: int) -> IncidentShape:
        """Undo the last state change of an incident of a known revision."""
        path = f"{_project_path(project)}/incidents/{number}/undo"
        return self._request(IncidentShape, "POST", path, headers={"If-Match": f'"{revision}"'})

    def list_expected_changes(self, project: str) -> Iterator[ExpectedChangeShape]:
        return self._list_all(ExpectedChangePage, f"{_project_path(project)}/expected-changes")

    def add_expected_changes(self, project: str, changes: NewExpectedChanges) -> AddedExpectedChanges:
        """Add the expected changes of a commit on the main branch; repeated ones are stored once."""
        body = changes.model_dump(mode="json", exclude_none=True)
        return self._request(
            AddedExpectedChanges, "POST", f"{_project_path(project)}/expected-changes", json=body
        )

    def list_tokens(self, project: str) -> Iterator[TokenShape]:
        return self._list_all(TokenPage, f"{_project_path(project)}/tokens")

    def create_token(self, project: str, new_token: NewToken) -> CreatedToken:
        return self._request(
            CreatedToken, "POST", f"{_project_path(project)}/tokens", json=new_token.model_dump(mode="json")
        )

    def revoke_token(self, project: str, uid: str) -> None:
        self._send("DELETE", f"{_project_path(project)}/tokens/{uid}")

    def get_repository_binding(self, project: str) -> RepositoryBindingShape:
        """Get the repository whose jobs may upload; ``ApiError`` with 404 if there is none."""
        return self._request(RepositoryBindingShape, "GET", f"{_project_path(project)}/repository")

    def bind_repository(self, project: str, binding: NewRepositoryBinding) -> RepositoryBindingShape:
        body = binding.model_dump(mode="json", exclude_none=True)
        return self._request(RepositoryBindingShape, "PUT", f"{_project_path(project)}/repository", json=body)

    def unbind_repository(self, project: str) -> None:
        self._send("DELETE", f"{_project_path(project)}/repository")

    def delete_run(self, project: str, key: str) -> None:
        self._send("DELETE", f"{_project_path(project)}/runs/{encode_segment(key)}")

    def delete_series(self, project: str, series: str) -> None:
        self._send("DELETE", f"{_project_path(project)}/series/{encode_segment(series)}")

    def list_invalid_marks(self, project: str) -> Iterator[InvalidMarkShape]:
        return self._list_all(InvalidMarkPage, f"{_project_path(project)}/invalid-marks")

    def set_run_mark(self, project: str, key: str, reason: str | None) -> None:
        """Mark a run as invalid for a reason, or with None as valid again."""
        self._set_mark(f"{_project_path(project)}/runs/{encode_segment(key)}", reason)

    def set_point_mark(self, project: str, series: str, sha: str, reason: str | None) -> None:
        """Mark what a series came to at a commit as invalid for a reason, or with None as valid again."""
        path = f"{_project_path(project)}/series/{encode_segment(series)}/points/{encode_segment(sha)}"
        self._set_mark(path, reason)

    def _set_mark(self, path: str, reason: str | None) -> None:
        if reason is None:
            self._send("DELETE", f"{path}/invalid-mark")
        else:
            self._send("PUT", f"{path}/invalid-mark", json={"reason": reason})

    def list_archived_series(self, project: str) -> Iterator[ArchivedSeriesShape]:
        return self._list_all(ArchivedSeriesPage, f"{_project_path(project)}/archived-series")

    def set_archived(self, project: str, change: ArchiveChange) -> ArchiveResult:
        """Archive a series, or all of a benchmark or machine, or bring them back."""
        body = change.model_dump(mode="json", exclude_none=True)
        return self._request(ArchiveResult, "PUT", f"{_project_path(project)}/archived-series", json=body)

    def list_notes(self, project: str) -> Iterator[ChartNoteShape]:
        return self._list_all(ChartNotePage, f"{_project_path(project)}/notes")

    def add_note(self, project: str, note: NewChartNote) -> ChartNoteShape:
        """Write a note at a commit, on the chart of one series or on all."""
        body = note.model_dump(mode="json", exclude_none=True)
        return self._request(ChartNoteShape, "POST", f"{_project_path(project)}/notes", json=body)

    def remove_note(self, project: str, number: int) -> None:
        self._send("DELETE", f"{_project_path(project)}/notes/{number}")

    def list_renames(self, project: str) -> tuple[RenameShape, ...]:
        return self._request(RenameList, "GET", f"{_project_path(project)}/renames").items

    def rename_series(self, project: str, rename: NewRename) -> RenameResult:
        """Let the history of a benchmark or machine go on under another name, or count what would move."""
        path = f"{_project_path(project)}/renames"
        return self._request(RenameResult, "POST", path, json=rename.model_dump(mode="json"))

    def delete_project(self, project: str) -> None:
        self._send("DELETE", _project_path(project))

    def list_members(self, project: str) -> Iterator[ProjectMemberShape]:
        return self._list_all(ProjectMemberPage, f"{_project_path(project)}/members")

    def set_member_role(self, project: str, member: str, role: RoleAssignment) -> ProjectMemberShape:
        path = f"{_project_path(project)}/members/{encode_segment(member)}"
        return self._request(
            ProjectMemberShape, "PUT", path, json=role.model_dump(mode="json", exclude_none=True)
        )

    def remove_member(self, project: str, member: str) -> None:
        self._send("DELETE", f"{_project_path(project)}/members/{encode_segment(member)}")

    def list_unresolved_results(self, project: str) -> Iterator[UnresolvedResultShape]:
        return self._list_all(UnresolvedResultPage, f"{_project_path(project)}/unresolved-results")

    def set_metric_unit(self, project: str, number: int, meaning: MetricMeaning) -> ResolvedResults:
        """Set the unit and direction of the metric of an unresolved result, for all such results."""
        path = f"{_project_path(project)}/unresolved-results/{number}/resolve"
        return self._request(ResolvedResults, "POST", path, json=meaning.model_dump(mode="json"))

    def list_suite_reporting_schedules(self, project: str) -> tuple[ReportingScheduleShape, ...]:
        return self._request(
            ReportingSchedulePage, "GET", f"{_project_path(project)}/reporting-schedules"
        ).items

    def set_suite_reporting_schedule(
        self, project: str, schedule: ReportingScheduleChange
    ) -> tuple[ReportingScheduleShape, ...]:
        body = schedule.model_dump(mode="json", exclude_unset=True)
        return self._request(
            ReportingSchedulePage, "PUT", f"{_project_path(project)}/reporting-schedules", json=body
        ).items

    def list_orders(self, project: str, **filters: Any) -> Iterator[OrderShape]:
        return self._list_all(OrderPage, f"{_project_path(project)}/orders", **filters)

    def get_order(self, project: str, number: int) -> OrderShape:
        return self._request(OrderShape, "GET", _order_path(project, number))

    def place_order(self, project: str, order: NewOrder) -> OrderShape:
        """Order a measurement, or join the open order of equal content."""
        body = order.model_dump(mode="json", exclude_none=True)
        return self._request(OrderShape, "POST", f"{_project_path(project)}/orders", json=body)

    def place_incident_order(self, project: str, number: int, kind: str, order: IncidentOrder) -> OrderShape:
        """Order a bisect or a backfill of an incident."""
        path = f"{_project_path(project)}/incidents/{number}/{kind}"
        return self._request(OrderShape, "POST", path, json=order.model_dump(mode="json", exclude_none=True))

    def cancel_order(self, project: str, number: int) -> OrderShape:
        return self._request(OrderShape, "POST", f"{_order_path(project, number)}/cancel")

    def claim_order(self, project: str, claim: OrderClaim) -> ClaimedOrder | None:
        """Claim the oldest order that waits for a worker; None without one."""
        path = f"{_project_path(project)}/orders/claim"
        answer = self._send("POST", path, json=claim.model_dump(mode="json"))
        return None if answer.status_code == 204 else self._parse(ClaimedOrder, answer)

    def heartbeat_order(
        self,
        project: str,
        number: int,
        lease: int,
        progress: str | None,
        findings: OrderFindings | None = None,
    ) -> OrderLeaseShape:
        beat = OrderHeartbeat(lease=lease, progress=progress, findings=findings)
        body = beat.model_dump(mode="json", exclude_none=True)
        path = f"{_order_path(project, number)}/heartbeat"
        return self._request(OrderLeaseShape, "POST", path, json=body)

    def finish_order(self, project: str, number: int, lease: int, result: NewOrderResult) -> OrderShape:
        body = OrderFinish(lease=lease, result=result).model_dump(mode="json", exclude_none=True)
        return self._request(OrderShape, "POST", f"{_order_path(project, number)}/finish", json=body)

    def fail_order(self, project: str, number: int, lease: int, problem: str) -> OrderShape:
        body = OrderFailure(lease=lease, problem=problem).model_dump(mode="json")
        return self._request(OrderShape, "POST", f"{_order_path(project, number)}/fail", json=body)

    def release_order(self, project: str, number: int, lease: int) -> OrderShape:
        body = OrderRelease(lease=lease).model_dump(mode="json")
        return self._request(OrderShape, "POST", f"{_order_path(project, number)}/release", json=body)

    def download_project_export(self, project: str, extension: str) -> Iterator[bytes]:
        """Download a whole project in chunks; the extension is csv, json, pytorch.json or asv.tar."""
        try:
            with self._http.stream(
                "GET", f"{API_PREFIX}{_project_path(project)}/export.{extension}"
            ) as answer:
                if not answer.is_success:
                    answer.read()  # a streamed response has no content until it is read
                    raise build_api_error(self.server_url, answer)
                yield from answer.iter_bytes()
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _list_all(self, page: type[Page], path: str, **filters: Any) -> Iterator[Any]:
        """Every item of a list, page after page."""
        parameters = _drop_none(filters)
        while True:
            response = self._request(page, "GET", path, params=parameters)
            yield from response.items
            if response.next is None:
                return
            parameters["cursor"] = response.next

    def _request(self, response_type: type[T], method: str, path: str, **request_options: Any) -> T:
        return self._parse(response_type, self._send(method, path, **request_options))

    def _parse(self, response_type: type[T], answer: httpx.Response) -> T:
        try:
            return response_type.model_validate_json(answer.content)
        except ValidationError as error:
            raise ApiError(
                f"{self.server_url} answered something else than perfci does: is this its address?",
                status=502,
                body=answer.content[:1000],
            ) from error

    def _send(self, method: str, path: str, **request_options: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, API_PREFIX + path, **request_options)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if not answer.is_success:
            raise build_api_error(self.server_url, answer)
        return answer

    def _unreachable(self, error: httpx.HTTPError) -> ServerUnreachable:
        return ServerUnreachable(f"{self.server_url} does not answer: {str(error) or type(error).__name__}.")


def _comparison_path(project: str, base: str, head: str) -> str:
    return f"{_project_path(project)}/comparisons/{encode_segment(base)}...{encode_segment(head)}"


def _order_path(project: str, number: int) -> str:
    return f"{_project_path(project)}/orders/{number}"


def _project_path(project: str) -> str:
    return f"/projects/{encode_segment(project)}"


def _drop_none(filters: Mapping[str, Any]) -> dict[str, Any]:
    """What is not asked for is not said."""
    return {name: value for name, value in filters.items() if value is not None}


def build_api_error(server: str, response: httpx.Response) -> ApiError:
    try:
        detail = ProblemDetails.model_validate_json(response.content).detail
    except ValidationError:
        detail = response.reason_phrase or "no reason given"
    # Retry-After may hold a date as well (RFC 9110, 10.2.3): rarer than a wrong clock, and left aside.
    text = response.headers.get("Retry-After", "")
    retry_after_s = float(text) if text.isascii() and text.isdigit() else None
    return ApiError(
        f"{server} answers {response.status_code}: {detail}",
        status=response.status_code,
        body=response.content,
        retry_after_s=retry_after_s,
    )
