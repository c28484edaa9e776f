"""``perfci noise``: whole texts, from a database of nightly A/A runs."""

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
from perfci.store.verdicts_and_change_points import add_verdicts
from perfci.store.writes.measured_sessions import find_or_add_run, start_session
from tests.support.builders import PROJECT, a_commit, a_result, a_run, a_series, a_sha, a_verdict

SCREENING, CONFIRMATION = Stage.SCREENING, Stage.CONFIRMATION
WORSE, SAME = VerdictKind.REGRESSION, VerdictKind.UNCHANGED
TIME, COUNT = a_series(metric="step_time"), a_series(metric="operators", unit="count")
NOW = datetime.now(UTC)
NIGHTS = 60


def add_aa_session(store: Store, uid: str, kind: str, at: datetime, verdicts: list[Verdict]) -> None:
    with store.begin() as tx:
        start_session(tx, PROJECT, uid, kind, "spec", 1, 0, at)
        find_or_add_run(tx, a_run(a_result(TIME), commit=a_commit(1), session=uid))
        add_verdicts(tx, PROJECT, uid, verdicts, at)


def an_aa_verdict(
    series: Series, kind: VerdictKind, stage: Stage = SCREENING, ratio: float = 1.001
) -> Verdict:
    return a_verdict(series, kind, stage=stage, base=a_sha(1), head=a_sha(1), ratio=ratio)


@pytest.fixture
def stored(nights: Path, working_folder: Path) -> Path:
    """A copy of the database of nightly A/A runs."""
    return Path(shutil.copy(nights, working_folder / "perfci.db"))


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty nightly A/A runs: two screening alarms, one of them confirmed and later retracted."""
    path = tmp_path_factory.mktemp("nights") / "perfci.db"
    with closing(open_store(f"sqlite:///{path}", create=True)) as store:
        for night in range(NIGHTS):
            at = NOW - timedelta(days=NIGHTS - night, hours=1)
            kind = WORSE if night in (5, 50) else SAME
            ratio = 1.06 if kind is WORSE else 1.01
            add_aa_session(
                store,
                f"aa-{night}",
                "aa",
                at,
                [an_aa_verdict(TIME, kind, ratio=ratio), an_aa_verdict(COUNT, SAME, ratio=1.0)],
            )
            if kind is WORSE:
                fresh = an_aa_verdict(TIME, WORSE if night == 5 else SAME, CONFIRMATION)
                add_aa_session(store, f"confirm-{night}", "confirm", at + timedelta(minutes=9), [fresh])
        add_aa_session(
            store,
            "pr",
            "compare",
            NOW,
            [a_verdict(TIME, WORSE, stage=SCREENING), a_verdict(COUNT, WORSE, stage=SCREENING)],
        )
        add_aa_session(store, "pr-fresh", "confirm", NOW, [a_verdict(TIME, SAME), a_verdict(COUNT, WORSE)])
        add_aa_session(store, "again", "compare", NOW, [a_verdict(COUNT, SAME, stage=SCREENING)])
    return path


def read(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert run_cli(["noise", "--db", str(path), "--project", PROJECT, *options]) == 0
    return capsys.readouterr().out


def test_shows_false_alarm_rates_as_a_table(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = Path(__file__).with_name("noise_table.txt").read_text(encoding="utf-8")
    assert read(stored, capsys) == expected


def test_writes_the_noise_as_json(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(read(stored, capsys, "--json"))

    ever, lately = document["windows"]
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


def test_shows_a_bar_raised_by_the_noise_floor(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(read(stored, capsys, "--json"))

    floors = {floor["series"]["metric"]: floor for floor in document["noise_floors"]}
    assert (floors["operators"]["noise_floor"], floors["operators"]["comparisons"]) == (0.0, NIGHTS - 1)
    assert floors["step_time"]["noise_floor"] == pytest.approx(0.024, abs=0.001)


def test_counts_a_false_alarm_after_it_was_superseded(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = json.loads(read(stored, capsys, "--json"))["windows"][0]["false_alarms"]

    with closing(open_store(f"sqlite:///{stored}", create=False)) as store:
        add_aa_session(store, "hide", "aa", NOW, [an_aa_verdict(TIME, SAME)])

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
def test_stored_verdicts_cannot_be_deleted(
    stored: Path, capsys: pytest.CaptureFixture[str], hiding: str
) -> None:
    before = read(stored, capsys)

    with closing(sqlite3.connect(stored)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")  # as every connection of perfci has them
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(hiding)

    assert read(stored, capsys) == before


def test_explains_how_to_start_aa_runs(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_store(f"sqlite:///{working_folder}/perfci.db", create=True).close()

    assert read(working_folder / "perfci.db", capsys) == (
        """\
No A/A run yet. Run `perfci compare HEAD HEAD`, preferably every night.

Screening has found no candidate change between different commits yet.

No change has been confirmed yet.
"""
    )
