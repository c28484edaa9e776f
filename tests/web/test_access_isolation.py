"""Every operation and every page, requested by every kind of caller, against its requirement.

One operation and one page of each requirement are requested by all of them; which requirement an operation or
a page has, a few callers tell. `make proof` lets everybody request everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from access_scenario import NOW, OPEN, OTHER, REPOSITORIES, SECRET, AccessScenario, require_project
from flask import url_for
from werkzeug.routing import Rule

from perfci.auth.permissions import NOT_FOUND, AccessRequirement
from perfci.formats import run_document
from perfci.model import Role
from perfci.net.url_segments import encode_segment
from perfci.store import open_store
from perfci.store.access import github_bindings
from perfci.store.access.github_bindings import BoundRepository
from perfci_web.api import request_pipeline
from perfci_web.api.operation import Operation, Reply
from perfci_web.api.operation_table import ALL_OPERATIONS
from tests.support.builders import a_process, a_result, a_run, a_series, a_sha
from tests.support.databases import KINDS, fresh_database

pytestmark = pytest.mark.slow

OPERATIONS_BY_ID = {operation.name: operation for operation in ALL_OPERATIONS}

EXPORTS = ("export_csv", "export_runs", "export_pytorch", "export_asv", "export_incident_evidence")
"""Readable by everybody but the anonymous, whom they would give a way to keep the server busy."""

OPERATIONS = {
    AccessRequirement.PUBLIC: {"list_projects", "get_openapi", "exchange_token"},
    AccessRequirement.READ: {
        "get_project",
        "list_incidents",
        "get_incident",
        "list_incident_events",
        "get_alert_quality",
        "list_impact",
        "list_muted_benchmarks",
        "list_archived_series",
        "list_unresolved_results",
        *EXPORTS,
        "list_reporting_schedules",
        "list_expected_changes",
        "list_runs",
        "get_run",
        "list_series",
        "get_series",
        "get_points",
        "list_commits",
        "get_commit",
        "list_machines",
        "list_environments",
        "list_verdicts",
        "get_verdict",
        "get_comparison",
        "get_pull_request_verdict",
        "list_result_summaries",
        "list_invalid_marks",
        "list_notes",
        "list_renames",
        "list_points_of_many_series",
        "scrape_levels",
        "list_orders",
        "get_order",
    },
    AccessRequirement.WRITE_RESULTS: {
        "upload_run",
        "add_expected_changes",
        "claim_order",
        "heartbeat_order",
        "finish_order",
        "fail_order",
        "release_order",
    },
    AccessRequirement.TRIAGE: {
        "set_muted_benchmark",
        "set_archived_series",
        "change_incident",
        "change_incidents",
        "add_incident_note",
        "merge_incident",
        "split_incident",
        "move_incident_boundary",
        "undo_incident",
        "resolve_result",
        "add_note",
        "remove_note",
        "mark_run_invalid",
        "mark_run_valid",
        "mark_point_invalid",
        "mark_point_valid",
        "place_order",
        "cancel_order",
        "bisect_incident",
        "backfill_incident",
    },
    AccessRequirement.ADMIN: {
        "change_project",
        "list_tokens",
        "create_token",
        "revoke_token",
        "list_members",
        "set_member",
        "remove_member",
        "list_audit_entries",
        "get_repository_binding",
        "bind_repository",
        "unbind_repository",
        "list_destinations",
        "set_destination",
        "remove_destination",
        "test_destination",
        "list_deliveries",
        "set_reporting_schedule",
        "rename_series",
        "delete_run",
        "delete_series",
        "delete_project",
    },
    AccessRequirement.SERVER: {"create_project"},
}
"""The requirement of each operation, written down a second time: a new operation fails the tests until it is
listed here.
"""

ONE_OF_EACH_NEED = [min(names - {"upload_run"}) for names in OPERATIONS.values()]
"""What is asked about a caller depends on the need of an operation, not on the operation, and so does what a
database is asked.
"""

PAGES = {
    AccessRequirement.PUBLIC: {
        "overview.projects_page",
        "authentication.login_page",
        "short_links.follow_short_link",
    },
    AccessRequirement.READ: {
        "overview.overview_page",
        "overview.overview_json",
        "incidents.incidents_page",
        "incidents.incidents_json",
        "incidents.incidents_csv",
        "incidents.incidents_feed",
        "incidents.incident_page",
        "incidents.incident_json",
        "incidents.incident_csv",
        "benchmarks.benchmark_page",
        "benchmarks.benchmark_json",
        "benchmarks.benchmark_csv",
        "benchmarks.benchmarks_page",
        "benchmarks.benchmarks_json",
        "benchmarks.benchmarks_csv",
        "series.series_page",
        "series.series_json",
        "series.series_svg",
        "series.series_png",
        "series.series_csv",
        "series.series_figure",
        "series.series_panel",
        "points.point_page",
        "points.point_json",
        "points.point_csv",
        "waterfalls.waterfall_page",
        "waterfalls.waterfall_json",
        "waterfalls.waterfall_csv",
        "waterfalls.waterfall_png",
        "waterfalls.waterfall_svg",
        "graphs.graph_page",
        "graphs.graph_csv",
        "graphs.graph_json",
        "graphs.graph_svg",
        "graphs.graph_png",
        "graphs.graph_figure",
        "comparisons.compare_chooser",
        "comparisons.chooser_json",
        "comparisons.chooser_csv",
        "comparisons.compare_csv",
        "comparisons.compare_page",
        "comparisons.compare_json",
        "comparisons.compare_markdown",
        "commits.commit_page",
        "commits.commit_json",
        "commits.commit_csv",
        "noise.noise_page",
        "noise.noise_json",
        "noise.noise_csv",
        "noise.old_noise_page",
        "noise.old_noise_json",
        "search.search_page",
        "search.search_json",
        "search.search_csv",
        "unresolved_results.unresolved_results_page",
        "unresolved_results.unresolved_results_json",
        "unresolved_results.unresolved_results_csv",
        "weeks.current_week",
        "weeks.week_page",
        "weeks.week_text",
        "weeks.week_markdown",
        "weeks.week_json",
        "weeks.weeks_feed",
        "changes.changes_page",
        "changes.changes_json",
        "changes.changes_csv",
        "changes.changes_feed",
        "changes.old_changes_page",
        "changes.old_changes_json",
        "measurement_orders.orders_page",
        "measurement_orders.orders_json",
        "measurement_orders.orders_csv",
        "renames.renames_page",
        "renames.renames_json",
        "renames.renames_csv",
        "runs.run_page",
        "runs.run_json",
        "runs.run_csv",
        "pull_requests.pull_request_page",
        "pull_requests.pull_requests_json",
        "pull_requests.pull_requests_csv",
        "pull_requests.pull_requests_page",
        "matrix.matrix_chooser_page",
        "matrix.matrix_chooser_json",
        "matrix.matrix_chooser_csv",
        "matrix.matrix_page",
        "matrix.matrix_json",
        "matrix.matrix_csv",
        "settings.settings_page",
        "settings.settings_json",
        "threshold_dry_run.dry_run_page",
        "threshold_dry_run.dry_run_json",
        "threshold_dry_run.dry_run_csv",
        "variants.variants_page",
        "variants.variants_json",
        "variants.variants_csv",
        "variants.goals_csv",
        "disagreements.disagreements_page",
        "disagreements.disagreements_json",
        "disagreements.disagreements_csv",
        "fleet.fleet_page",
        "fleet.fleet_json",
        "fleet.fleet_csv",
        "environments.environment_page",
        "environments.environment_json",
        "environments.environment_csv",
        "embeds.project_badge",
        "embeds.series_badge",
        "embeds.series_chart",
        "embeds.series_chart_png",
    },
    AccessRequirement.TRIAGE: {
        "incidents.change_selected",
        "incidents.change_incident",
        "incidents.merge_other_incidents",
        "incidents.split_incident",
        "incidents.move_incident_boundary",
        "incidents.undo_last_state_change",
        "invalid_marks.change_mark",
        "chart_notes.add_note",
        "chart_notes.remove_note",
        "measurement_orders.place_ordered_pairs",
        "measurement_orders.bisect_incident",
        "measurement_orders.backfill_incident",
        "measurement_orders.cancel_one_order",
        "short_links.create_short_link",
        "unresolved_results.resolve_result",
        "settings.mute_benchmark",
        "settings.unmute_benchmark",
        "settings.archive_or_bring_back",
    },
    AccessRequirement.ADMIN: {
        "renames.add_rename",
        "settings.create_project_token",
        "settings.revoke_project_token",
        "settings.set_project_member",
        "settings.remove_project_member",
        "settings.add_project_destination",
        "settings.test_project_destination",
        "settings.remove_project_destination",
    },
}
"""The same for pages, by endpoint."""

ONE_PAGE_OF_EACH_NEED = [min(endpoints) for endpoints in PAGES.values()]

PUBLIC_MACHINE_ENDPOINTS = {"healthz", "readyz", "metrics", "asset", "favicon", "github.webhook"}
"""Endpoints that answer without identifying the caller; they name no project."""

ALLOWED = 200
BAD_TOKENS = ("expired token", "revoked token", "no token", "expired token of a job")
STATUS_BY_CALLER: dict[str, tuple[int, int, int, int, int]] = {
    # in a private project:      READ WRITE TRIAGE ADMIN SERVER
    "anonymous": (404, 401, 401, 401, 401),
    "stranger": (404, 404, 404, 404, 403),
    "wrong project": (404, 404, 404, 404, 403),
    "token of another project": (404, 404, 404, 404, 403),
    "token of a job of another project": (404, 404, 404, 404, 403),
    "admin of all projects": (ALLOWED, ALLOWED, ALLOWED, ALLOWED, ALLOWED),
    "reader": (ALLOWED, 403, 403, 403, 403),
    "sheriff": (ALLOWED, 403, ALLOWED, 403, 403),
    "admin": (ALLOWED, ALLOWED, ALLOWED, ALLOWED, 403),
    "reading token": (ALLOWED, 403, 403, 403, 403),
    "writing token": (403, ALLOWED, 403, 403, 403),
    "admin token": (ALLOWED, ALLOWED, ALLOWED, ALLOWED, 403),
    "token of a job": (403, ALLOWED, 403, 403, 403),
    "token of a pull request": (403, ALLOWED, 403, 403, 403),
    "token of a branch": (403, ALLOWED, 403, 403, 403),
}
SAME_IN_OTHER_PROJECT = {
    "wrong project": "admin",
    "token of another project": "admin token",
    "token of a job of another project": "token of a job",
    "anonymous": "anonymous",
    "admin of all projects": "admin of all projects",
}
"""In the project of somebody else: whose rights each caller has there; all others are strangers."""

TELLING_CALLERS = ("anonymous", "wrong project", "reader", "sheriff", "writing token", "admin")
"""No two requirements answer all of these alike."""

NEEDS = (
    AccessRequirement.READ,
    AccessRequirement.WRITE_RESULTS,
    AccessRequirement.TRIAGE,
    AccessRequirement.ADMIN,
    AccessRequirement.SERVER,
)


@pytest.fixture(scope="module")
def scenario(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AccessScenario]:
    """Who may do what does not depend on the database; what is read of callers and projects does."""
    with (
        fresh_database(getattr(request, "param", "sqlite"), tmp_path_factory.mktemp("access")) as url,
        closing(open_store(url, create=False)) as store,
        closing(AccessScenario(store)) as scenario,
    ):
        yield scenario


@pytest.fixture(params=["telling callers", pytest.param("everybody", marks=pytest.mark.proof)])
def everybody(request: pytest.FixtureRequest) -> bool:
    """Whether all callers request all that there is."""
    return bool(request.param == "everybody")


on_both_databases = pytest.mark.parametrize("scenario", KINDS, indirect=True, scope="module")


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an operation does is not the matter here: only whether somebody gets so far."""
    monkeypatch.setattr(request_pipeline, "_run_handler", lambda operation, call: Reply(None))


def requirement_of(name: str, table: dict[AccessRequirement, set[str]]) -> AccessRequirement:
    results = [need for need, names in table.items() if name in names]
    assert results, f"nobody has said yet who may reach {name}"
    return results[0]


def expected_status(who: str, need: AccessRequirement, slug: str) -> int:
    if who in BAD_TOKENS:
        return 401
    if need is AccessRequirement.PUBLIC:
        return ALLOWED
    row = SAME_IN_OTHER_PROJECT.get(who, "stranger") if slug == OTHER else who
    result = dict(zip(NEEDS, STATUS_BY_CALLER[row], strict=True))[need]
    if slug == OPEN:
        return expected_status_in_public(who, need, result)
    return result


def expected_status_in_public(who: str, need: AccessRequirement, in_private: int) -> int:
    """A public project is everybody's to read; its tokens and people are the private one's, so tokens do
    nothing.
    """
    if need is AccessRequirement.READ:
        return ALLOWED
    if "token" in who and need is not AccessRequirement.SERVER:
        return 403
    return 403 if in_private == 404 else in_private


def test_a_few_callers_tell_every_requirement_from_the_others() -> None:
    answers = {
        need: tuple(expected_status(who, need, SECRET) for who in TELLING_CALLERS)
        for need in AccessRequirement
    }

    assert len(set(answers.values())) == len(AccessRequirement)


def path_of(operation: Operation, slug: str) -> str:
    values = {
        "project": encode_segment(slug),
        "uid": "0" * 12,
        "key": "0" * 64,
        "number": "1",
        "int": "1",
        "name": "x",
    }
    return re.sub(
        r"<(?:(\w+)(?:\([^)]*\))?:)?(\w+)>",
        lambda result: values.get(result[1] or "", values["name"]),
        operation.url_path,
    )


def test_assigns_a_requirement_to_every_operation() -> None:
    assert {name for names in OPERATIONS.values() for name in names} == set(OPERATIONS_BY_ID)


@pytest.mark.usefixtures("reached")
@pytest.mark.parametrize("slug", [SECRET, OPEN, OTHER])
@pytest.mark.parametrize(
    ("scenario", "operation"),
    [
        *(("sqlite", operation) for operation in ALL_OPERATIONS if operation.name != "upload_run"),
        *(("postgresql", OPERATIONS_BY_ID[name]) for name in ONE_OF_EACH_NEED),
    ],
    indirect=["scenario"],
    scope="module",  # else pytest makes a scenario for every operation
    ids=lambda value: value if isinstance(value, str) else str(value.name),
)
def test_allows_an_operation_only_to_callers_with_its_requirement(
    scenario: AccessScenario, operation: Operation, slug: str, everybody: bool
) -> None:
    need = requirement_of(operation.name, OPERATIONS)
    about: dict[str, Any] = {"json": {}} if operation.body else {}
    callers = scenario.callers if everybody or operation.name in ONE_OF_EACH_NEED else TELLING_CALLERS

    status_codes = {
        who: scenario.send(who, operation.method, path_of(operation, slug), **about).status_code
        for who in callers
    }

    refused = {who: status if status in (401, 403, 404) else ALLOWED for who, status in status_codes.items()}
    expected = {who: expected_status(who, need, slug) for who in callers}
    if operation.name in EXPORTS:
        expected["anonymous"] = 401
    assert refused == expected


NO_HISTORY = ("token of a pull request", "token of a branch")
"""Whose jobs upload comparisons only."""


@on_both_databases
@pytest.mark.parametrize("role", [Role.HISTORY, Role.HEAD])
@pytest.mark.parametrize("slug", [SECRET, OPEN, OTHER])
def test_accepts_an_upload_only_from_writers_of_its_project(
    scenario: AccessScenario, slug: str, role: Role
) -> None:
    measured_by = (("attempt", "1"), ("run_id", "4711"), ("step", role.value))
    pair = None if role is Role.HISTORY else 0
    result = a_result(a_series("suite.a"), a_process(1.0, role=role, pair=pair))
    run = a_run(result, project=slug, session=f"{role.value} of {slug}", origin=measured_by)
    about = {
        "data": run_document.dump_run(run),
        "headers": {"Idempotency-Key": run_document.idempotency_key(run), "Content-Type": "application/json"},
    }

    status_codes = {
        who: scenario.send(who, "POST", "/api/v1/runs", **about).status_code for who in scenario.callers
    }

    stored = {who: ALLOWED if status == 201 else status for who, status in status_codes.items()}
    expected = {who: expected_status(who, AccessRequirement.WRITE_RESULTS, slug) for who in scenario.callers}
    if role is Role.HISTORY:
        expected |= dict.fromkeys(NO_HISTORY, 404 if slug == OTHER else 403)
    # A token that may not write is refused before the body, which names the project, is read.
    assert stored == expected | {"reading token": 403}


@pytest.mark.parametrize("slug", [SECRET, OPEN, OTHER])
def test_records_expected_changes_only_of_jobs_of_the_main_branch(
    scenario: AccessScenario, slug: str
) -> None:
    item = {"match": "peak", "relative_change": 0.03, "reason": "a cache"}
    body = {"commit": a_sha(1), "source": "#12", "items": [item]}
    path = path_of(OPERATIONS_BY_ID["add_expected_changes"], slug)

    status_codes = {who: scenario.send(who, "POST", path, json=body).status_code for who in scenario.callers}

    expected = {who: expected_status(who, AccessRequirement.WRITE_RESULTS, slug) for who in scenario.callers}
    assert status_codes == expected | dict.fromkeys(NO_HISTORY, 404 if slug == OTHER else 403)


@pytest.fixture
def own_scenario(tmp_path: Path) -> Iterator[AccessScenario]:
    """A scenario of one test alone: to bind a repository again ends the tokens of its jobs."""
    url = f"sqlite:///{tmp_path}/perfci.db"
    with closing(open_store(url, create=True)) as store, closing(AccessScenario(store)) as scenario:
        yield scenario


@pytest.mark.parametrize("slug", [SECRET, OPEN, OTHER])
def test_binds_a_repository_only_with_proof(own_scenario: AccessScenario, slug: str) -> None:
    """Who may change the project may change its own binding; any other needs an admin of all projects."""
    jobs = {"token of a job", "token of a job of another project", *NO_HISTORY}
    callers = [who for who in own_scenario.callers if who not in jobs]
    own = REPOSITORIES.get(slug)
    for number, name in enumerate((*REPOSITORIES, "nobody/bound"), start=1):
        expected = {who: expected_status(who, AccessRequirement.ADMIN, slug) for who in callers}
        if name != slug:
            allowed = [who for who, status in expected.items() if status == ALLOWED]
            expected |= dict.fromkeys(set(allowed) - {"admin of all projects"}, 403)
        body = {"repository": name, "repository_id": number, "owner_id": 5}
        assert {who: bind(own_scenario, who, slug, body, own) for who in callers} == expected, name


def bind(
    scenario: AccessScenario, who: str, slug: str, body: dict[str, Any], own: BoundRepository | None
) -> int:
    """Let a caller bind a project, and bind it as before."""
    path = path_of(OPERATIONS_BY_ID["bind_repository"], slug)
    status = scenario.send(who, "PUT", path, json=body).status_code
    with scenario.store.begin() as tx:
        project_id = require_project(tx, slug).id
        github_bindings.unbind_repository(tx, project_id)
        if own is not None:
            github_bindings.bind_repository(tx, project_id, own, NOW)
    return status


def test_believes_no_caller_of_the_webhook_without_a_signature(scenario: AccessScenario) -> None:
    status_codes = {
        scenario.send(who, "POST", "/api/v1/github/webhook", json={}).status_code for who in scenario.callers
    }

    assert status_codes == {401}


def rules(scenario: AccessScenario) -> list[Rule]:
    results = [
        rule
        for rule in scenario.app.url_map.iter_rules()
        if not rule.endpoint.startswith(("api.", "problem."))
    ]
    return [rule for rule in results if rule.endpoint not in PUBLIC_MACHINE_ENDPOINTS]


def test_refuses_an_unauthorized_caller_before_reading_the_body(scenario: AccessScenario) -> None:
    status_codes = [
        scenario.send(who, "POST", "/api/v1/runs", data=b"{").status_code
        for who in ("anonymous", "reading token")
    ]

    assert status_codes == [401, 403]


def test_assigns_a_requirement_to_every_page(scenario: AccessScenario) -> None:
    assert {name for names in PAGES.values() for name in names} == {rule.endpoint for rule in rules(scenario)}


@pytest.mark.parametrize("slug", [SECRET, OPEN, OTHER])
def test_allows_a_page_only_to_callers_with_its_requirement(
    scenario: AccessScenario, slug: str, everybody: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for endpoint in list(scenario.app.view_functions):
        monkeypatch.setitem(scenario.app.view_functions, endpoint, lambda **_: "reached")

    for rule in rules(scenario):
        need, path = requirement_of(rule.endpoint, PAGES), page(scenario, rule, slug)
        callers = scenario.callers if everybody or rule.endpoint in ONE_PAGE_OF_EACH_NEED else TELLING_CALLERS
        for method in sorted((rule.methods or set()) - {"OPTIONS", "HEAD"}):
            status_codes = {who: scenario.send(who, method, path).status_code for who in callers}
            assert status_codes == {who: expected_page_status(who, need, slug) for who in callers}, (
                rule.rule,
                method,
            )


def page(scenario: AccessScenario, rule: Rule, slug: str) -> str:
    values = {"project": slug, "benchmark": "suite.a", "metric": "time", "base": "a", "head": "b", "sha": "a"}
    values |= {"key": "0" * 64, "week": "2026-W10"}
    with scenario.app.test_request_context():
        return url_for(rule.endpoint, **{name: values.get(name, "1") for name in rule.arguments})


def expected_page_status(who: str, need: AccessRequirement, slug: str) -> int:
    """A page says of a private project that it is not there, whatever was to be done with it."""
    result = expected_status(who, need, slug)
    unseen = (
        slug != OPEN
        and expected_status(who, AccessRequirement.READ, slug) == 404
        and need is not AccessRequirement.PUBLIC
    )
    return 404 if unseen else result


OUTSIDERS = ("anonymous", "stranger", "wrong project", "token of another project")


@pytest.mark.parametrize("who", OUTSIDERS)
def test_shows_the_same_page_for_a_private_and_a_missing_project(scenario: AccessScenario, who: str) -> None:
    for rule in rules(scenario):
        if "project" in rule.arguments and "GET" in (rule.methods or ()):
            private, none = (
                scenario.send(who, "GET", page(scenario, rule, slug)) for slug in (SECRET, "acme/sacred")
            )
            texts = [answer.text.replace(answer.headers["X-Request-Id"], "id") for answer in (private, none)]
            assert texts[0].replace(SECRET, "acme/sacred") == texts[1], rule.rule
            assert headers(private) == headers(none)


@on_both_databases
@pytest.mark.parametrize("who", OUTSIDERS)
def test_answers_the_same_for_a_private_and_a_missing_project(scenario: AccessScenario, who: str) -> None:
    for operation in ALL_OPERATIONS:
        if "<project:project>" in operation.rule and not operation.body:
            private, none = (
                scenario.send(who, operation.method, path_of(operation, slug))
                for slug in (SECRET, "acme/sacred")
            )
            assert without_id(private.get_json()) == without_id(none.get_json()), operation.name
            assert private.status_code in (401, 404)


def headers(answer: Any) -> dict[str, str]:
    passing = {"X-Request-Id", "Content-Length", "ETag"}
    return {name: value for name, value in answer.headers.items() if name not in passing}


def without_id(problem: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in problem.items() if name != "instance"}


@pytest.mark.parametrize("path", ["/", "/nothing/here", "/acme:sacred/", "/acme:secret/", "/api/v1/projects"])
@pytest.mark.parametrize("who", OUTSIDERS)
def test_never_names_a_private_project_to_outsiders(scenario: AccessScenario, who: str, path: str) -> None:
    answer = scenario.send(who, "GET", path, follow_redirects=True)

    assert answer.text.replace("project acme/secret in", "").count("acme/secret") == 0


@on_both_databases
def test_lists_for_each_caller_the_projects_they_may_see(scenario: AccessScenario) -> None:
    seen = {
        who: [item["project"] for item in scenario.send(who, "GET", "/api/v1/projects").json["items"]]
        for who in ("anonymous", "reader", "wrong project", "reading token")
    }

    assert seen == {
        "anonymous": [OPEN],
        "reader": [OPEN, SECRET],
        "wrong project": [OPEN, "rival/own"],
        "reading token": [OPEN, SECRET],
    }


def test_answers_not_found_for_a_private_project(scenario: AccessScenario) -> None:
    problem = scenario.send("anonymous", "GET", "/api/v1/projects/acme:secret").json

    assert (problem["status"], problem["detail"]) == (404, NOT_FOUND)


def test_varies_etags_by_caller(scenario: AccessScenario) -> None:
    item, other = (
        scenario.send(who, "GET", f"/api/v1/projects/{encode_segment(OPEN)}")
        for who in ("anonymous", "admin")
    )

    assert item.headers["ETag"] != other.headers["ETag"]
    assert {"Cookie", "Authorization"} <= {word.strip() for word in item.headers["Vary"].split(",")}
