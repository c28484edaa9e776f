"""The five persons of the dashboard on the whole history of Django, with a pull request beside it."""

from __future__ import annotations

from collections.abc import Iterator

import journeys
import pytest
from playwright.sync_api import Browser, Page

from perfci.model import (
    Commit,
    Environment,
    Interval,
    Process,
    Result,
    Run,
    Series,
    Stage,
    Status,
    Verdict,
    VerdictKind,
)
from perfci.store import Store
from perfci.store.queries.branch_commits import load_branch_commits
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.store.verdicts_and_change_points import add_verdicts
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci.store.writes.measured_sessions import find_or_add_run, finish_session, start_session
from perfci_web import create_app
from perfci_web.page_urls import ProjectLinks
from tests.support.django_store import NOW, PROJECT, extract_all, needs_django, open_django_store
from tests.support.loopback_application import served_on_loopback

pytestmark = [needs_django, pytest.mark.browser, pytest.mark.proof]

SLOWER = "form_benchmarks.form_validate.benchmark.FormValidate.time_form_invalid"
PULL = "35"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("django")
    with open_django_store(folder, extract_all(folder / "asv")) as store:
        add_pull_request(store)
        yield store


@pytest.fixture(scope="module")
def server(store: Store) -> Iterator[str]:
    app = create_app(store, read_only=False, clock=lambda: NOW)
    with served_on_loopback(app) as url:
        yield url
    app.extensions["perfci"].group_commit.close()


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    yield page
    page.context.close()


@pytest.fixture(scope="module")
def address(store: Store, server: str) -> str:
    """The page of the series that got worst, as an alert links it."""
    with store.read() as tx:
        series = _find_series(load_project_series(tx, PROJECT).values(), "3.13")
        links = ProjectLinks(PROJECT, load_project_series(tx, PROJECT).values())
    return f"{server}{links.series(series)}"


def test_a_lead_finds_the_worst_of_the_last_weeks(page: Page, server: str) -> None:
    seen, detail = journeys.find_worst_and_its_owner(page, f"{server}/{PROJECT}/")

    assert "FormValidate.time_form_invalid" in seen
    assert "+14," in seen
    assert "suspect" in seen
    assert "nobody owns it" in seen
    assert "Is it the code?" in detail
    assert "142" in detail or "+14," in detail


def test_an_author_learns_whether_a_pull_request_is_safe(page: Page, server: str) -> None:
    text = journeys.read_a_pull_request(page, f"{server}/{PROJECT}/", PULL)

    assert "1 regression" in text or "1 worse" in text
    assert SLOWER in text
    assert "[+9.0, +15.0]" in text
    assert "inconclusive" in text or "undecided" in text


def test_an_engineer_examines_the_runner(page: Page, address: str) -> None:
    sentence, samples = journeys.suspect_the_runner(page, address)

    assert sentence.startswith("Is it the runner?")
    assert "py3.12" in sentence
    assert "sample" in samples


@pytest.mark.parametrize("place", ["py3.12", "macos-12"], ids=["variant", "machine"])
def test_an_engineer_lays_another_place_over_it(page: Page, address: str, place: str) -> None:
    legend, _ = journeys.overlay_another_place(page, address, place)

    assert "py3.13" in legend
    assert place in legend


def test_a_manager_takes_link_picture_and_table_along(page: Page, address: str) -> None:
    link, picture, table = journeys.take_along_link_picture_and_table(page, address)

    assert link.startswith(address.partition("?")[0])
    assert SLOWER in picture
    assert table.count("\n") > 700


def test_somebody_on_call_answers_three_incidents_by_keyboard(page: Page, server: str) -> None:
    first, second, third = journeys.answer_three_incidents(page, f"{server}/{PROJECT}/incidents")

    assert "investigating" in first
    assert "new" in second
    assert "new" in third


def add_pull_request(store: Store) -> None:
    """Store a pull request on the newest commit: one series slower, one undecided, the others unchanged."""
    with store.begin() as tx:
        series = load_project_series(tx, PROJECT).values()
        slower = _find_series(series, "3.13")
        place = slower.machine, slower.variant
        others = [each for each in series if (each.machine, each.variant) == place and each != slower][:40]
        base = load_branch_commits(tx, PROJECT).commits[-1]
        head = Commit(
            "a" * 40,
            "Validate forms once",
            "A. Lee",
            base.committed_at,
            (base.sha,),
            "forms",
            (),
            None,
            False,
        )
        upsert_commits(tx, PROJECT, [head])
        start_session(tx, PROJECT, "pull", "pull_request", "pull", 7, 0, NOW)
        for commit in (base, head):
            find_or_add_run(tx, _a_run(commit, [slower, *others]))
        finish_session(tx, "pull", NOW)
        kinds = [VerdictKind.REGRESSION, VerdictKind.INCONCLUSIVE, *[VerdictKind.UNCHANGED] * 39]
        verdicts = [
            _a_verdict(each, base, head, kind) for each, kind in zip([slower, *others], kinds, strict=True)
        ]
        add_verdicts(tx, PROJECT, "pull", verdicts, NOW)


def _find_series(series: object, python: str) -> Series:
    return next(
        each
        for each in series  # type: ignore[attr-defined]
        if each.benchmark.name == SLOWER
        and each.machine.label.startswith("ubuntu-latest")
        and dict(each.variant.values).get("python") == python
    )


def _a_run(commit: Commit, series: list[Series]) -> Run:
    results = tuple(
        Result(each, Status.OK, (Process(0, samples=(1.0, 1.1), started_at=NOW),)) for each in series
    )
    return Run(
        project=PROJECT,
        session="pull",
        commit=commit,
        machine=series[0].machine,
        environment=Environment(()),
        variant=series[0].variant,
        suite="django",
        harness=series[0].harness,
        started_at=NOW,
        finished_at=NOW,
        results=results,
        origin=(("compared_pull_request", PULL),),
    )


def _a_verdict(series: Series, base: Commit, head: Commit, kind: VerdictKind) -> Verdict:
    ratio, lo, hi = {
        VerdictKind.REGRESSION: (1.12, 1.09, 1.15),
        VerdictKind.INCONCLUSIVE: (1.04, 0.98, 1.11),
    }.get(kind, (1.0, 0.99, 1.01))
    return Verdict(
        kind,
        Stage.CONFIRMATION,
        series,
        base.sha,
        head.sha,
        ratio,
        Interval(lo, hi),
        1.0,
        ratio,
        mde=0.03,
        pairs=10,
        pairs_to_decide=12 if kind is VerdictKind.INCONCLUSIVE else 0,
    )
