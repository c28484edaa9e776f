"""``perfci report --html``: written from a store, opened from a file in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser
from web_builders import PROJECT

from perfci.cli import run_cli
from perfci.store import Store

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert run_cli(["report", "--html", str(path), "--db", store.url, "--project", PROJECT]) == 0
    return path


def test_opens_from_a_file_and_asks_for_nothing_else(report: Path, browser: Browser) -> None:
    page = browser.new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))

    page.goto(report.as_uri())
    page.wait_for_function(
        "[...document.querySelectorAll('figure')].every((figure) => figure.querySelector('.main-svg')"
        " && figure.querySelector('svg.pc-trend').style.display === 'none')"
    )

    assert asked == [report.as_uri()]
    assert said == []
    assert page.locator("h1").inner_text() == "1 open regression."
    assert page.locator("figure").count() == 5
    page.close()


def test_shows_pictures_without_scripts(report: Path, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 380, "height": 800})
    page = context.new_page()

    page.goto(report.as_uri())

    assert page.locator("svg.pc-trend").first.is_visible()
    assert not page.locator(".plot").first.is_visible()
    context.close()


def test_refuses_a_time_it_cannot_read(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "report.html"

    code = run_cli(
        ["report", "--html", str(target), "--since", "soon", "--db", store.url, "--project", PROJECT]
    )

    assert code == 2
    assert capsys.readouterr().err == (
        "perfci: --since takes a number of days like 30d or a day like 2026-05-04, not 'soon'.\n"
    )


def test_counts_only_changes_since_a_day(store: Store, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    arguments = ["--since", "2026-04-01", "--series", "1", "--db", store.url, "--project", PROJECT]

    assert run_cli(["report", "--html", str(target), *arguments]) == 0

    text = target.read_text()
    assert "<h2>2 changes since 1 Apr 2026: 1 worse, 1 better</h2>" in text
    assert "1 series of the 2 that changed; <code>--series 2</code> draws all." in text
