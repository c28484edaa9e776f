"""The typed client of the API: one method for each operation, in the same shapes as the server's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from perfci.model import PerfciError
from perfci.net.shapes import Page
from perfci.net.shapes.access import (
    MemberPage,
    MemberShape,
    NewRole,
    NewToken,
    ProjectChange,
    TokenMade,
    TokenPage,
    TokenShape,
)
from perfci.net.shapes.expected_changes import AnnouncementPage, AnnouncementShape, AnnouncementsKept, NewAnnouncements
from perfci.net.shapes.github_jobs import NewRepository, RepositoryShape
from perfci.net.shapes.incidents import IncidentChange, IncidentPage, IncidentShape, WholeIncident
from perfci.net.shapes.problem_details import Problem
from perfci.net.shapes.reporting_schedules import ExpectationPage, ExpectationShape, NewExpectation
from perfci.net.shapes.runs import NewProject, ProjectPage, ProjectShape, Receipt, RunPage, RunShape, Visibility
from perfci.net.shapes.series import (
    CommitPage,
    CommitShape,
    EnvironmentPage,
    EnvironmentShape,
    MachinePage,
    MachineShape,
    SeriesPage,
    SeriesPoints,
    SeriesShape,
)
from perfci.net.shapes.unresolved_results import Meaning, QuarantinedPage, QuarantinedShape, Resolved
from perfci.net.shapes.verdicts import (
    ComparisonPage,
    LevelPage,
    LevelShape,
    VerdictPage,
    VerdictShape,
    WholeVerdict,
)
from perfci.net.url_segments import segment

T = TypeVar("T", bound=BaseModel)

API = "/api/v1"


class Unreachable(PerfciError):
    """No answer came: nobody knows whether the request arrived."""


class Refused(PerfciError):
    """The server answered, and not with what was asked for."""

    def __init__(self, sentence: str, *, status: int, body: bytes, retry_after_s: float | None = None) -> None:
        super().__init__(sentence)
        self.status, self.body, self.retry_after_s = status, body, retry_after_s

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status == 429 or self.status >= 500


class Client:
    """Asks one server; ``door`` knows its address and the token."""

    def __init__(self, door: httpx.Client) -> None:
        self._door = door

    @property
    def server(self) -> str:
        return str(self._door.base_url).rstrip("/")

    def close(self) -> None:
        self._door.close()

    def upload(self, packed: bytes, key: str) -> Receipt:
        """Send a gzip run document; the same one twice is one run."""
        about = {"Content-Type": "application/json", "Content-Encoding": "gzip", "Idempotency-Key": key}
        return self._asked(Receipt, "POST", "/runs", content=packed, headers=about)

    def projects(self) -> list[ProjectShape]:
        return list(self._all(ProjectPage, "/projects"))

    def project(self, project: str) -> ProjectShape:
        return self._asked(ProjectShape, "GET", _of(project))

    def create_project(self, project: str, visibility: Visibility = "private") -> ProjectShape:
        asked = NewProject(project=project, visibility=visibility)
        return self._asked(ProjectShape, "POST", "/projects", json=asked.model_dump())

    def change_project(self, project: str, change: ProjectChange) -> ProjectShape:
        asked = change.model_dump(mode="json", exclude_none=True)
        return self._asked(ProjectShape, "PATCH", _of(project), json=asked)

    def runs(self, project: str, **narrowed: Any) -> Iterator[RunShape]:
        return self._all(RunPage, f"{_of(project)}/runs", **narrowed)

    def run(self, project: str, key: str) -> bytes:
        """A whole run as a ``perfci.run/1`` document."""
        return self._answer("GET", f"{_of(project)}/runs/{key}").content

    def series(self, project: str, **narrowed: Any) -> Iterator[SeriesShape]:
        return self._all(SeriesPage, f"{_of(project)}/series", **narrowed)

    def points(self, project: str, series: str, **narrowed: Any) -> SeriesPoints:
        return self._asked(SeriesPoints, "GET", f"{_of(project)}/series/{series}/points", params=_given(narrowed))

    def commits(self, project: str, **narrowed: Any) -> Iterator[CommitShape]:
        return self._all(CommitPage, f"{_of(project)}/commits", **narrowed)

    def commit(self, project: str, sha: str) -> CommitShape:
        return self._asked(CommitShape, "GET", f"{_of(project)}/commits/{segment(sha)}")

    def machines(self, project: str) -> Iterator[MachineShape]:
        return self._all(MachinePage, f"{_of(project)}/machines")

    def environments(self, project: str) -> Iterator[EnvironmentShape]:
        return self._all(EnvironmentPage, f"{_of(project)}/environments")

    def comparison(self, project: str, base: str, head: str, **narrowed: Any) -> ComparisonPage:
        """How many verdicts of each kind stand between two commits, with the first of them, worst first."""
        return self._asked(ComparisonPage, "GET", _between(project, base, head), params=_given(narrowed))

    def compared(self, project: str, base: str, head: str, **narrowed: Any) -> Iterator[VerdictShape]:
        """All verdicts between two commits, worst first."""
        return self._all(ComparisonPage, _between(project, base, head), **narrowed)

    def levels(self, project: str, base: str, head: str, **narrowed: Any) -> Iterator[LevelShape]:
        """What every series came to at two commits, compared or not."""
        return self._all(LevelPage, f"{_between(project, base, head)}/levels", **narrowed)

    def verdicts(self, project: str, **narrowed: Any) -> Iterator[VerdictShape]:
        return self._all(VerdictPage, f"{_of(project)}/verdicts", **narrowed)

    def verdict(self, project: str, number: int) -> WholeVerdict:
        return self._asked(WholeVerdict, "GET", f"{_of(project)}/verdicts/{number}")

    def incidents(self, project: str, **narrowed: Any) -> Iterator[IncidentShape]:
        return self._all(IncidentPage, f"{_of(project)}/incidents", **narrowed)

    def incident(self, project: str, number: int) -> WholeIncident:
        return self._asked(WholeIncident, "GET", f"{_of(project)}/incidents/{number}")

    def change_incident(self, project: str, number: int, change: IncidentChange, revision: int) -> WholeIncident:
        """Change an incident as it was seen; ``Refused`` with 412 where somebody was faster."""
        return self._asked(
            WholeIncident, "PATCH", f"{_of(project)}/incidents/{number}",
            json=change.model_dump(mode="json", exclude_unset=True), headers={"If-Match": f'"{revision}"'},
        )  # fmt: skip

    def undo_incident(self, project: str, number: int, revision: int) -> IncidentShape:
        """Take back the last change of state of an incident as it was seen."""
        path = f"{_of(project)}/incidents/{number}/undo"
        return self._asked(IncidentShape, "POST", path, headers={"If-Match": f'"{revision}"'})

    def announcements(self, project: str) -> Iterator[AnnouncementShape]:
        return self._all(AnnouncementPage, f"{_of(project)}/announcements")

    def announce(self, project: str, told: NewAnnouncements) -> AnnouncementsKept:
        """Tell what was announced of a commit that came to the main branch; told twice it is kept once."""
        asked = told.model_dump(mode="json", exclude_none=True)
        return self._asked(AnnouncementsKept, "POST", f"{_of(project)}/announcements", json=asked)

    def tokens(self, project: str) -> Iterator[TokenShape]:
        return self._all(TokenPage, f"{_of(project)}/tokens")

    def create_token(self, project: str, asked: NewToken) -> TokenMade:
        return self._asked(TokenMade, "POST", f"{_of(project)}/tokens", json=asked.model_dump(mode="json"))

    def revoke_token(self, project: str, uid: str) -> None:
        self._answer("DELETE", f"{_of(project)}/tokens/{uid}")

    def repository(self, project: str) -> RepositoryShape:
        """The repository whose jobs may upload; ``Refused`` with 404 where there is none."""
        return self._asked(RepositoryShape, "GET", f"{_of(project)}/repository")

    def bind_repository(self, project: str, wanted: NewRepository) -> RepositoryShape:
        asked = wanted.model_dump(mode="json", exclude_none=True)
        return self._asked(RepositoryShape, "PUT", f"{_of(project)}/repository", json=asked)

    def unbind_repository(self, project: str) -> None:
        self._answer("DELETE", f"{_of(project)}/repository")

    def members(self, project: str) -> Iterator[MemberShape]:
        return self._all(MemberPage, f"{_of(project)}/members")

    def set_member(self, project: str, member: str, wanted: NewRole) -> MemberShape:
        path = f"{_of(project)}/members/{segment(member)}"
        return self._asked(MemberShape, "PUT", path, json=wanted.model_dump(mode="json", exclude_none=True))

    def remove_member(self, project: str, member: str) -> None:
        self._answer("DELETE", f"{_of(project)}/members/{segment(member)}")

    def quarantined(self, project: str) -> Iterator[QuarantinedShape]:
        return self._all(QuarantinedPage, f"{_of(project)}/quarantine/results")

    def resolve(self, project: str, number: int, meaning: Meaning) -> Resolved:
        """Say what the metric of a quarantined result means, once for all of them."""
        path = f"{_of(project)}/quarantine/results/{number}/resolve"
        return self._asked(Resolved, "POST", path, json=meaning.model_dump(mode="json"))

    def expectations(self, project: str) -> tuple[ExpectationShape, ...]:
        return self._asked(ExpectationPage, "GET", f"{_of(project)}/expectations").items

    def set_expectation(self, project: str, said: NewExpectation) -> tuple[ExpectationShape, ...]:
        asked = said.model_dump(mode="json", exclude_unset=True)
        return self._asked(ExpectationPage, "PUT", f"{_of(project)}/expectations", json=asked).items

    def export(self, project: str, ending: str) -> Iterator[bytes]:
        """A whole project as a file, piece by piece; ``ending`` is csv, json, pytorch.json or asv.tar."""
        try:
            with self._door.stream("GET", f"{API}{_of(project)}/export.{ending}") as answer:
                if not answer.is_success:
                    answer.read()
                    raise refusal(self.server, answer)
                yield from answer.iter_bytes()
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _all(self, page: type[Page], path: str, **narrowed: Any) -> Iterator[Any]:
        """Every item of a list, page after page."""
        asked = _given(narrowed)
        while True:
            found = self._asked(page, "GET", path, params=asked)
            yield from found.items
            if found.next is None:
                return
            asked["cursor"] = found.next

    def _asked(self, shape: type[T], method: str, path: str, **more: Any) -> T:
        answer = self._answer(method, path, **more)
        try:
            return shape.model_validate_json(answer.content)
        except ValidationError as error:
            raise Refused(
                f"{self.server} answered something else than perfci does: is this its address?",
                status=502, body=answer.content[:1000],
            ) from error  # fmt: skip

    def _answer(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            answer = self._door.request(method, API + path, **more)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if not answer.is_success:
            raise refusal(self.server, answer)
        return answer

    def _unreachable(self, error: httpx.HTTPError) -> Unreachable:
        return Unreachable(f"{self.server} does not answer: {str(error) or type(error).__name__}.")


def _between(project: str, base: str, head: str) -> str:
    return f"{_of(project)}/comparisons/{segment(base)}...{segment(head)}"


def _of(project: str) -> str:
    return f"/projects/{segment(project)}"


def _given(narrowed: Mapping[str, Any]) -> dict[str, Any]:
    """What is not asked for is not said."""
    return {name: value for name, value in narrowed.items() if value is not None}


def refusal(server: str, answer: httpx.Response) -> Refused:
    try:
        detail = Problem.model_validate_json(answer.content).detail
    except ValidationError:
        detail = f"{answer.reason_phrase or 'no reason given'}"
    return Refused(
        f"{server} answers {answer.status_code}: {detail}",
        status=answer.status_code,
        body=answer.content,
        retry_after_s=_seconds(answer.headers),
    )


def _seconds(headers: Mapping[str, str]) -> float | None:
    """``Retry-After`` in seconds; a date in it is rarer than a wrong clock, and is left aside."""
    text = headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None
