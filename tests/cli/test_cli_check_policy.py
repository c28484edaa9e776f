"""``perfci check --dry-run``: stored results judged by another policy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from perfci.cli import run_cli
from perfci.model import Clock, Point, Process, Role, Series, Stage, Status
from perfci.store import open_store
from perfci.store.verdicts_and_change_points import add_verdicts, load_change_points, load_verdict_records
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci.store.writes.measured_sessions import find_or_add_run, start_session
from perfci.verdicts.compare.pairwise_verdict import interim_analysis
from tests.support.builders import NOON, PROJECT, a_commit, a_process, a_result, a_run, a_series
from tests.support.level_histories import find_change_points as moves_of
from tests.support.stored_runs import replace_change_points

NOISE = (0.0, 0.003, -0.003, 0.002, -0.002, 0.001, -0.001, 0.0, 0.002, -0.002)
STEP, OPERATORS = a_series(metric="step_time"), a_series(metric="operators", unit="count")
HISTORY = a_series("training.Step.epoch", "epoch_time")


@pytest.fixture
def stored(working_folder: Path) -> Path:
    """A confirmed slowdown of 8 %, one operator more that nobody minded, and a history with a step of 8 %."""
    with (
        closing(open_store(f"sqlite:///{working_folder}/perfci.db", create=True)) as store,
        store.begin() as tx,
    ):
        upsert_commits(tx, PROJECT, [a_commit(number) for number in range(1, 21)])
        start_session(tx, PROJECT, "pairs", "confirm", "spec", 7, 0, NOON)
        sides = {
            series: [side(series, role) for role in (Role.BASE, Role.HEAD)] for series in (STEP, OPERATORS)
        }
        for number in (0, 1):
            results = [a_result(series, *both[number]) for series, both in sides.items()]
            find_or_add_run(tx, a_run(*results, commit=a_commit(number + 1), session="pairs"))
        shas = a_commit(1).sha, a_commit(2).sha
        verdicts = [
            interim_analysis(item, *shas, *both, stage=Stage.CONFIRMATION).verdict
            for item, both in sides.items()
        ]
        add_verdicts(tx, PROJECT, "pairs", verdicts, NOON + timedelta(hours=1))
        start_session(tx, PROJECT, "line", "history", "spec-2", 7, 1, NOON)
        for number in range(1, 21):
            process = a_process((1.0 if number < 11 else 1.08) * (1 + NOISE[number % 10]))
            find_or_add_run(tx, a_run(a_result(HISTORY, process), commit=a_commit(number), session="line"))
    return working_folder


def side(series: Series, role: Role) -> Sequence[Process]:
    head = role is Role.HEAD
    if series is OPERATORS:
        return [a_process(813.0 if head else 812.0, clock=Clock.EXACT, pair=k, role=role) for k in range(10)]
    level = 1.08 if head else 1.0
    return [a_process(level * (1 + share), pair=k, role=role) for k, share in enumerate(NOISE)]


def checked(folder: Path, capsys: pytest.CaptureFixture[str], policy: str = "") -> dict[str, object]:
    (folder / "perfci.toml").write_text(policy)
    assert run_cli(["check", "--dry-run", "--json", "--db", "perfci.db", "--project", PROJECT]) == 0
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


def test_a_higher_bar_retracts_the_slowdown_and_a_class_policy_detects_the_operator(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problems = checked(stored, capsys, '[[policy]]\nmatch = "step_time"\nbar = 0.2\n')

    fields = {
        verdict["series"].split(" · ")[1]: (verdict["stored"], verdict["now"])
        for verdict in problems["verdicts"]
    }  # type: ignore[attr-defined]
    assert fields == {"step_time": ("regression", "unchanged"), "operators": ("unchanged", "regression")}
    assert problems["verdicts_replayed"] == 2


def test_never_edits_stored_verdicts(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(open_store(f"sqlite:///{stored}/perfci.db", create=False)) as store, store.read() as tx:
        before = load_verdict_records(tx, PROJECT, current_only=False), load_change_points(tx, PROJECT)

    checked(stored, capsys, "[judge]\nbar = 0.3\n")

    with closing(open_store(f"sqlite:///{stored}/perfci.db", create=False)) as store, store.read() as tx:
        assert (
            load_verdict_records(tx, PROJECT, current_only=False),
            load_change_points(tx, PROJECT),
        ) == before


def test_lists_change_points_that_a_policy_adds_or_removes(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problems = checked(stored, capsys)
    ((new,),) = [point["new"] for point in problems["change_points"]]  # type: ignore[attr-defined]
    with closing(open_store(f"sqlite:///{stored}/perfci.db", create=False)) as store, store.begin() as tx:
        replace_change_points(tx, PROJECT, HISTORY, moves_of(HISTORY, points_of_the_line()))

    same, higher = checked(stored, capsys), checked(stored, capsys, "[judge]\nbar = 0.2\n")

    assert (new["commit"], same["change_points"]) == (a_commit(11).sha, [])
    assert [point["removed"][0]["commit"] for point in higher["change_points"]] == [a_commit(11).sha]  # type: ignore[attr-defined]


def test_reports_series_that_are_no_longer_judged(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (stored / "perfci.toml").write_text('[[policy]]\nmatch = "."\njudge = false\n')

    assert run_cli(["check", "--dry-run", "--db", "perfci.db", "--project", PROJECT]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("regression (confirmation) -> not judged")
    assert (
        lines[-1]
        == "2 verdicts and 3 series re-judged: 2 and 0 of them would differ; stored verdicts are unchanged"
    )


def test_the_original_policy_gives_identical_verdicts(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problems = checked(stored, capsys, '[[policy]]\nmatch = "operators"\nbar = 0.05\n')

    assert problems["verdicts"] == []


def test_requires_dry_run_or_replay(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["check"]) == 2
    assert "perfci check needs --dry-run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[[policy]]\nmatch = "x"\nflor = 1\n', "unknown key 'policy.0.flor'; did you mean 'floor'?"),
        ('[[policy]]\nmatch = "x"\nclas = "time"\n', "unknown key 'policy.0.clas'; did you mean 'class'?"),
        ('[[policy]]\nmatch = "("\n', "policy.0.match: a regular expression was expected"),
        ("[[policy]]\nbar = 0.1\n", "policy.0.match is missing"),
        ('[[policy]]\nmatch = "x"\nclass = "speed"\n', "policy.0.class: Input should be 'time', 'memory'"),
        ('[[policy]]\nmatch = "x"\nbar = -1\n', "policy.0.bar: Input should be greater than or equal to 0"),
    ],
)
def test_rejects_an_invalid_policy_table(
    working_folder: Path, capsys: pytest.CaptureFixture[str], text: str, sentence: str
) -> None:
    (working_folder / "perfci.toml").write_text(text)

    assert run_cli(["check", "--dry-run"]) == 2
    assert sentence in capsys.readouterr().err


def points_of_the_line() -> list[Point]:
    return [
        Point(a_commit(k), Status.OK, (a_process((1.0 if k < 11 else 1.08) * (1 + NOISE[k % 10])),))
        for k in range(1, 21)
    ]
