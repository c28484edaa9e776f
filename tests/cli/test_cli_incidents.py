"""``perfci incidents`` with incidents derived from a stored history."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from perfci.cli import run_cli
from perfci.model import Environment, Series
from perfci.report.change_id import format_change_id
from perfci.store import Store, open_store
from perfci.store.column_conversions import series_identity
from perfci.store.queries.measured_samples import load_history
from perfci.store.queries.series_search import search_series
from perfci.store.verdicts_and_change_points import add_verdicts
from perfci.store.writes.measured_sessions import find_or_add_run, finish_session, start_session
from tests.support.builders import (
    NOON,
    PROJECT,
    a_commit,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_verdict,
)
from tests.support.evaluations import a_budgeted_incident, a_move, reconcile
from tests.support.level_histories import find_change_points, simulate_points, stepped_level
from tests.support.stored_runs import replace_change_points

LENGTH = 40
STEP, LOSS = a_series("training.Step.time_step"), a_series("training.Step.time_loss")
DATA, TOKEN, SLOW = (
    a_series("data.Loader.time_batch"),
    a_series("serving.Gpt.time_token"),
    a_series("audio.Mel.time_it"),
)


@pytest.fixture
def stored(past: Path, working_folder: Path) -> Path:
    """A folder with that history."""
    shutil.copy(past, working_folder)
    return working_folder


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A confirmed slowdown, a new driver, a jump at the newest commit and a ramp, each in a series of its
    own.

    Fresh pairs gave the slowdown another size than the history does.
    """
    levels = {
        STEP: stepped_level((12, 1.183)),
        LOSS: stepped_level((12, 1.09)),
        DATA: stepped_level((25, 1.3)),
        TOKEN: stepped_level((LENGTH, 1.4)),
        SLOW: lambda number: 1.004**number,
    }
    path = tmp_path_factory.mktemp("past") / "perfci.db"
    with closing(open_store(f"sqlite:///{path}", create=True)) as store:
        measure(
            store,
            {
                series: {
                    each_level.sha: each_level.level
                    for each_level in simulate_points(level, length=LENGTH, noise=0.002, seed=k)
                }
                for k, (series, level) in enumerate(levels.items())
            },
        )
        look_for_changes(store)
        with store.begin() as tx:
            start_session(tx, PROJECT, "pairs", "confirm", "spec", 7, 0, NOON + timedelta(hours=LENGTH + 1))
            verdicts = [a_verdict(STEP, base=a_sha(11), head=a_sha(12), ratio=1.21, p_value=1e-12)]
            add_verdicts(tx, PROJECT, "pairs", verdicts, NOON + timedelta(hours=LENGTH + 1))
    return path


def measure(store: Store, levels: Mapping[Series, Mapping[str, float]]) -> None:
    """A session for each commit, and a new driver from the twenty-fifth on."""
    for number in range(1, LENGTH + 1):
        commit = a_commit(number, tags=("v1.0",) if number == 5 else ())
        driver = Environment((("driver", "560.35" if number >= 25 else "550.54"), ("torch", "2.13.0")))
        moment = NOON + timedelta(hours=number)
        results = [a_result(series, a_process(owner[commit.sha])) for series, owner in levels.items()]
        with store.begin() as tx:
            start_session(tx, PROJECT, f"nightly-{number}", "history", f"spec-{number}", 7, 1, moment)
            find_or_add_run(
                tx,
                a_run(
                    *results,
                    commit=commit,
                    session=f"nightly-{number}",
                    environment=driver,
                    started_at=moment,
                    machine=STEP.machine,
                ),
            )
            finish_session(tx, f"nightly-{number}", moment)


def look_for_changes(store: Store) -> None:
    with store.begin() as tx:
        for row in search_series(tx, PROJECT):
            replace_change_points(
                tx, PROJECT, row.series, find_change_points(row.series, load_history(tx, row.id))
            )


def incidents(*arguments: str) -> int:
    return run_cli(["incidents", *arguments, "--db", "perfci.db", "--project", PROJECT])


TWELFTH, TWENTY_FIFTH = "Change number 12 (2 Mar 2026)", "Change number 25 (2 Mar 2026)"

LISTED = f"""\
acme/model: 1 open incident, 1 closed or informational, 1 retest due, 1 series drifting slowly

Open
  ▲ 8bc50e7dad47  Step.time_step and 1 more series got worse, up to +21.0 %, at 0000000ccc {TWELFTH}
    training.Step.time_step got 21.0 % slower. Confirmed on new pairs in 1 of 2 series.
    alert 1 of at most 5 in week 2026-W10

Closed or informational
  ⚙ 358d6df2e16c  Loader.time_batch changed with the environment, +30.0 %, at 00000019cc {TWENTY_FIFTH}
    data.Loader.time_batch got 30.0 % slower. driver 550.54 → 560.35. No commit is blamed.
    informational: no alert
    perfci compare 00000018cc 00000019cc --bench '^data\\.Loader\\.time_batch$'

Suggested re-measurements
  serving.Gpt.time_token: +40.2 % on the newest point, far outside noise (127 sigma)
    perfci compare 00000027cc 00000028cc --bench '^serving\\.Gpt\\.time_token$'

Slow drift since a release
  audio.Mel.time_it drifted +14.0 % [+12.8, +15.2] since v1.0, from nearby points; no change point explains it
    perfci compare 00000005cc 00000028cc --bench '^audio\\.Mel\\.time_it$'
"""

SHOWN = f"""\
▲ Step.time_step and 1 more series got worse, up to +21.0 %, at 0000000ccc {TWELFTH}
Confirmed on new pairs in 1 of 2 series.
8bc50e7dad47, alert 1 of at most 5 in week 2026-W10

Changed series, largest first
  training.Step.time_step got 21.0 % slower [15.0, 25.0]: 1.000 s → 1.210 s
  training.Step.time_loss got 9.0 % slower [8.7, 9.3]: 1.000 s → 1.090 s

Candidate commits, most likely first
  0000000ccc Change number 12 · Ada · supported by 2 series
"""


def test_lists_open_incidents_and_explains_the_others(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert incidents("list") == 0

    assert capsys.readouterr().out == LISTED


def test_lists_incidents_as_json(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert incidents("list", "--json") == 0

    document = json.loads(capsys.readouterr().out)
    assert [
        (incident["kind"], incident["disposition"], len(incident["members"]))
        for incident in document["incidents"]
    ] == [
        ("environment", "note", 1),
        ("regression", "page", 2),
    ]
    assert (document["retests"][0]["base"], document["retests"][0]["head"]) == (a_sha(39), a_sha(40))
    assert document["slow_drifts"][0]["release"] == "v1.0"


def test_shows_an_incident_by_its_id_prefix(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    incidents("list", "--json")
    name = json.loads(capsys.readouterr().out)["incidents"][1]["id"]

    assert incidents("show", name[:5]) == 0

    assert capsys.readouterr().out == SHOWN


def test_rejects_an_unknown_incident_id(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert incidents("show", "zzz") == 2

    assert (
        "no incident of acme/model begins with 'zzz'; perfci incidents list shows them"
        in capsys.readouterr().err
    )


def test_a_budget_of_zero_pages_holds_everything_back(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (stored / "perfci.toml").write_text("[history]\npages_per_week = 0\n")

    incidents("list", "--json")

    document = json.loads(capsys.readouterr().out)
    assert [incident["disposition"] for incident in document["incidents"]] == ["note", "held_back"]


def test_names_the_changes_of_a_stored_incident(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change = a_move("train")
    with closing(open_store(f"sqlite:///{working_folder}/perfci.db", create=True)) as store:
        reconcile(store, NOON, a_budgeted_incident("a1", change))

    assert incidents("show", "1") == 0

    name = format_change_id(series_identity(PROJECT, change.series), change.commit)
    assert f"\n  {name}  train got 20.0 % slower: 1.000 s → 1.200 s\n" in capsys.readouterr().out
