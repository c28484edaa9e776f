"""`perfci calibration` as a user reads it: whole texts, from a database of nightly A/A runs."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perfci.cli import run_cli
from perfci.model import Series, Stage, Verdict, VerdictKind
from perfci.store import Store, open_store
from perfci.store.writes.ingest import add_run, start_session
from perfci.store.writes.verdict_writes import add_verdicts
from tests.support.builders import PROJECT, a_commit, a_result, a_run, a_series, a_sha, a_verdict

LOOK, FRESH = Stage.SCREENING, Stage.CONFIRMATION
WORSE, SAME = VerdictKind.REGRESSION, VerdictKind.UNCHANGED
TIME, COUNT = a_series(metric="step_time"), a_series(metric="operators", unit="count")
NOW = datetime.now(UTC)
NIGHTS = 60


def say(store: Store, uid: str, kind: str, at: datetime, verdicts: list[Verdict]) -> None:
    with store.begin() as tx:
        start_session(tx, PROJECT, uid, kind, "spec", 1, 0, at)
        add_run(tx, a_run(a_result(TIME), commit=a_commit(1), session=uid))
        add_verdicts(tx, PROJECT, uid, verdicts, at)


def equal(series: Series, kind: VerdictKind, stage: Stage = LOOK, ratio: float = 1.001) -> Verdict:
    return a_verdict(series, kind, stage=stage, base=a_sha(1), head=a_sha(1), ratio=ratio)


@pytest.fixture
def stored(nights: Path, here: Path) -> Path:
    """A database of nights of one's own."""
    return Path(shutil.copy(nights, here / "perfci.db"))


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty nights of equals: two alarms at a first look, one of them convicted and taken back the night
    after.
    """
    path = tmp_path_factory.mktemp("nights") / "perfci.db"
    with closing(open_store(f"sqlite:///{path}", create=True)) as store:
        for night in range(NIGHTS):
            at = NOW - timedelta(days=NIGHTS - night, hours=1)
            kind = WORSE if night in (5, 50) else SAME
            ratio = 1.06 if kind is WORSE else 1.01
            say(
                store,
                f"aa-{night}",
                "aa",
                at,
                [equal(TIME, kind, ratio=ratio), equal(COUNT, SAME, ratio=1.0)],
            )
            if kind is WORSE:
                fresh = equal(TIME, WORSE if night == 5 else SAME, FRESH)
                say(store, f"confirm-{night}", "confirm", at + timedelta(minutes=9), [fresh])
        say(
            store,
            "pr",
            "compare",
            NOW,
            [a_verdict(TIME, WORSE, stage=LOOK), a_verdict(COUNT, WORSE, stage=LOOK)],
        )
        say(store, "pr-fresh", "confirm", NOW, [a_verdict(TIME, SAME), a_verdict(COUNT, WORSE)])
        say(store, "again", "compare", NOW, [a_verdict(COUNT, SAME, stage=LOOK)])
    return path


def read(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert run_cli(["calibration", "--db", str(path), "--project", PROJECT, *options]) == 0
    return capsys.readouterr().out


def test_tells_the_meter_as_a_table(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert read(stored, capsys) == (
        """\
60 comparisons of a commit with itself: 1 false alarm in 120 verdicts (95 % interval 0.02 % to 4.6 %).

                             verdicts  first look  share     95 % interval  convicted  share    95 % interval
all time                          120           2  1.7 %    0.2 % to 5.9 %          1  0.8 %  0.02 % to 4.6 %
  suite benchmarks/training       120           2  1.7 %    0.2 % to 5.9 %          1  0.8 %  0.02 % to 4.6 %
  count                            60           0  0.0 %       up to 6.0 %          0  0.0 %      up to 6.0 %
  time                             60           2  3.3 %   0.4 % to 11.5 %          1  1.7 %  0.04 % to 8.9 %
last 30 days                       58           1  1.7 %   0.04 % to 9.2 %          0  0.0 %      up to 6.2 %
  suite benchmarks/training        58           1  1.7 %   0.04 % to 9.2 %          0  0.0 %      up to 6.2 %
  count                            29           0  0.0 %      up to 11.9 %          0  0.0 %     up to 11.9 %
  time                             29           1  3.4 %  0.09 % to 17.8 %          0  0.0 %     up to 11.9 %

Between different commits, screening found 2 candidate changes: 1 confirmed on new pairs, 1 refuted.
A refuted candidate is not a false alarm: it raised no alert.

1 change was confirmed. Retracted since: 1.

noise floor  A/A         bar  series
      1.0 %   60       5.0 %  training.Step.time_step · step_time
      exact   60  any change  training.Step.time_step · operators
"""
    )


def test_tells_programs_the_same(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(read(stored, capsys, "--json"))

    ever, lately = found["windows"]
    assert (ever["false_alarms"]["confirmed"]["alarms"], lately["false_alarms"]["confirmed"]["alarms"]) == (
        1,
        0,
    )
    assert ever["different_commits"] == {
        "candidates": 2,
        "confirmed": 1,
        "refuted": 1,
        "undecided": 0,
        "not_validated": 0,
        "confirmed_changes": 1,
        "retracted": 1,
    }


def test_the_floor_of_a_noisy_series_raises_its_bar(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(read(stored, capsys, "--json"))

    floors = {one["series"]["metric"]: one for one in found["noise_floors"]}
    assert (floors["operators"]["noise_floor"], floors["operators"]["comparisons"]) == (0.0, NIGHTS)
    assert floors["step_time"]["noise_floor"] == pytest.approx(0.01, abs=0.001)


def test_superseding_an_alarm_does_not_hide_it(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = json.loads(read(stored, capsys, "--json"))["windows"][0]["false_alarms"]

    with closing(open_store(f"sqlite:///{stored}", create=False)) as store:
        say(store, "hide", "aa", NOW, [equal(TIME, SAME)])

    after = json.loads(read(stored, capsys, "--json"))["windows"][0]["false_alarms"]
    assert after["screening"]["alarms"] == before["screening"]["alarms"] == 2
    assert (after["confirmed"]["alarms"], after["confirmed"]["verdicts"]) == (
        1,
        before["confirmed"]["verdicts"] + 1,
    )


@pytest.mark.parametrize(
    "hiding",
    [
        "DELETE FROM verdicts WHERE kind = 'regression'",
        "DELETE FROM verdicts",
        "UPDATE verdicts SET kind = 'unchanged'",
        "UPDATE verdicts SET stage = 'screening', created_at = 0",
        "UPDATE verdicts SET superseded_by = NULL",
        "UPDATE verdicts SET session_id = (SELECT id FROM sessions WHERE kind = 'compare')",
        "DELETE FROM sessions WHERE kind = 'aa'",
        "UPDATE sessions SET kind = 'compare'",
    ],
)
def test_what_was_said_cannot_be_taken_out_of_the_database(
    stored: Path, capsys: pytest.CaptureFixture[str], hiding: str
) -> None:
    before = read(stored, capsys)

    with closing(sqlite3.connect(stored)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")  # as every connection of perfci has them
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(hiding)

    assert read(stored, capsys) == before


def test_a_project_that_never_compared_equals_is_told_how(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_store(f"sqlite:///{here}/perfci.db", create=True).close()

    assert read(here / "perfci.db", capsys) == (
        """\
No A/A run yet. Run `perfci compare HEAD HEAD`, preferably every night.

Screening has found no candidate change between different commits yet.

No change has been confirmed yet.
"""
    )
