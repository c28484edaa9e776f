"""A history of asv and perfci's own runs after it: one honest break, and no change is seen across it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from perfci.cli import run_cli
from perfci.formats import run_document
from perfci.history.result_summaries import summarize_processes
from perfci.model import InvalidMark, Point, SampleSummary, Status
from perfci.store import open_store
from perfci.store.queries.measured_samples import load_histories_by_series_id
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.store.verdicts_and_change_points import load_change_points
from perfci.verdicts.history.method_bridge import MethodBridge, link_methods
from perfci_web import create_app
from tests.support.builders import NOON, PROJECT, a_commit, a_process, a_result, a_run, a_series, a_sha
from tests.support.stored_runs import ingest_run

COLUMNS = ["result", "params", "version", "started_at", "duration", "samples"]
IMPORTED, OWN = range(1, 13), range(13, 18)
SERIES = a_series("suite.time_step", "time")


def write_asv_results(folder: Path) -> Path:
    """Results of asv 0.6 of twelve commits on one machine, a third slower than what perfci reads."""
    machine = {"arch": "x86_64", "cpu": "AMD EPYC", "machine": "runner", "num_cpu": "2", "os": "", "ram": "8"}
    (folder / "runner").mkdir(parents=True)
    (folder / "runner" / "machine.json").write_text(json.dumps(machine | {"version": 1}))
    for number in IMPORTED:
        samples = [[1.33 + number % 3 / 1000, 1.331, 1.332]]
        content = {
            "commit_hash": a_sha(number),
            "env_name": "virtualenv-py3.11",
            "date": int((NOON + timedelta(hours=number)).timestamp() * 1000),
            "params": {"machine": "runner", "python": "3.11"},
            "python": "3.11",
            "requirements": {},
            "env_vars": {},
            "result_columns": COLUMNS,
            "results": {"suite.time_step": [[1.331], [], "v1", 0, 1.0, samples]},
            "durations": {},
            "version": 2,
        }
        (folder / "runner" / f"{a_sha(number)[:8]}-virtualenv-py3.11.json").write_text(json.dumps(content))
    return folder


@pytest.fixture
def database(working_folder: Path) -> str:
    """A store with the history of asv."""
    url = f"sqlite:///{working_folder}/perfci.db"
    results = write_asv_results(working_folder / "results")
    assert run_cli(["--db", url, "--project", PROJECT, "ingest", str(results)]) == 0
    return url


def measure(database: str, numbers: Iterable[int]) -> None:
    """Store own runs, of which each process reads another hundredth."""
    with closing(open_store(database, create=False)) as store, store.begin() as tx:
        for number in numbers:
            level = 1.0 + number / 1e4
            processes = [a_process(level + step / 1000, index=step) for step in range(3)]
            commit, moment = a_commit(number), NOON + timedelta(hours=number)
            run = a_run(a_result(SERIES, *processes), commit=commit, session=f"s{number}", started_at=moment)
            key = run_document.idempotency_key(run)
            ingest_run(tx, run, key, "body", kind="history", summarize=summarize_processes)


@dataclass(frozen=True)
class SeriesPage:
    """What a reader gets of the series that perfci measured: its page, its chart, the panel of a commit."""

    text: str
    figure: dict[str, Any]
    panel: str

    @property
    def seam_marks(self) -> int:
        shapes = self.figure["figure"]["layout"]["shapes"]
        return sum(shape["line"].get("dash") == "dash" for shape in shapes)

    @property
    def risers(self) -> list[float]:
        figure = self.figure["figure"]
        return [x for x in figure["data"][figure["names"].index("risers")]["x"] if x is not None]


def read_page(database: str, *, pinned: str = "") -> SeriesPage:
    with closing(open_store(database, create=False)) as store:
        client = create_app(store).test_client()
        answer = client.get("/acme:model/s/suite.time_step/time", follow_redirects=True)
        (own,) = {
            address
            for address in re.findall(r'href="(/acme:model/s/suite.time_step/time\?[^"]*)"', answer.text)
            if "m=runner" not in address
        }
        path, _, query = unescape(own).partition("?")
        return SeriesPage(
            unescape(client.get(f"{path}?{query}").text),
            client.get(f"{path}/figure?{query}").get_json(),
            unescape(client.get(f"{path}/panel?{query}&pin={pinned}").text),
        )


def test_asv_history_and_own_runs_are_two_series_with_a_break_that_is_said(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(database, OWN)
    with closing(open_store(database, create=False)) as store, store.read() as tx:
        series = load_project_series(tx, PROJECT)
        histories = load_histories_by_series_id(tx, list(series))
        lengths = {series[row_id].harness: len(points) for row_id, points in histories.items()}
        changes = load_change_points(tx, PROJECT)
    capsys.readouterr()

    run_cli(["--db", database, "--project", PROJECT, "show", a_sha(OWN[0])])
    first = capsys.readouterr().out.splitlines()[-1]
    run_cli(["--db", database, "--project", PROJECT, "show", a_sha(OWN[1])])
    page = read_page(database)
    text = page.text

    newest = a_sha(IMPORTED[-1])[:10]
    assert (lengths, changes) == ({"asv": len(IMPORTED), "perfci/1": len(OWN)}, [])
    assert first.endswith(f"begins here: asv measured until {newest}")
    assert f"changes since {a_sha(OWN[0])[:10]}" in capsys.readouterr().out
    assert f"asv measured 12 commits until {newest}. No commit was measured by both" in text
    assert f"<code>perfci run {newest}</code> measures its newest commit" in text
    assert (
        f"Left of the dashed line, up to {newest}: all the commits that asv measured, as it measured" in text
    )
    assert text.count('class="pc-mark-break"') == 3  # in the wide picture, the narrow one and the legend
    assert (page.seam_marks, page.risers, page.figure["changes"]) == (1, [], [])
    points = page.figure["points"]
    assert len(points) == len(IMPORTED) + len(OWN)
    assert ["against the commit before" in point["facts"] for point in points[11:14]] == [True, False, True]


def test_commits_that_both_measured_link_the_two_histories(database: str) -> None:
    measure(database, [*IMPORTED[-2:], *OWN])

    page = read_page(database, pinned=a_sha(3))

    sentence = re.search(
        r"Of 2 commits measured by both, this series reads (.*?) times what asv did \[(.*?)\]", page.text
    )
    assert sentence
    assert float(sentence[1]) == pytest.approx(1.002 / 1.331, rel=0.01)
    lo, hi = map(float, sentence[2].split(", "))
    assert lo < 1.002 / 1.331 < hi
    assert (
        f"up to {a_sha(IMPORTED[-3])[:10]}: the last 10 of the commits that asv measured, times" in page.text
    )
    assert (page.seam_marks, page.risers, page.figure["changes"]) == (1, [], [])
    assert "1.331 s" in page.panel  # of a commit before the seam: what asv measured, not scaled


def test_what_asv_measured_after_the_seam_is_not_drawn_before_it(database: str) -> None:
    measure(database, range(8, 10))

    page = read_page(database)

    assert [point["sha"] for point in page.figure["points"]] == [a_sha(number) for number in range(1, 10)]


def test_one_commit_links_without_an_interval_and_invalid_ones_not_at_all() -> None:
    asv = [Point(a_commit(number), Status.OK, summary=SampleSummary(2.0)) for number in (1, 2)]
    own = [Point(a_commit(2), Status.OK, (a_process(1.0),))]
    invalid = [replace(own[0], invalid=InvalidMark("a fan stood still", "ada", NOON))]

    assert link_methods(asv, own) == MethodBridge(0.5, (a_sha(2),))
    assert link_methods(asv, invalid) is None
    assert link_methods(asv[:1], own) is None
