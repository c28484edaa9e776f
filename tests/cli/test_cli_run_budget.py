"""``perfci run`` within a budget, and of the default suite: what is measured, left out, and resumed."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest

from perfci.cli import run_cli
from perfci.measure.adaptive_pairs import AdaptivePairing
from perfci.measure.commit_ranges.measure_screen_confirm_range import UNCONFIRMED
from perfci.model import Run
from tests.support.git_project import GitProject

SUITE = """
    import time

    class Step:
        params = [["fp32", "bf16"]]
        param_names = ["precision"]
        default_suite = {"precision": ["bf16"]}

        def cost_s(self, p):
            return {"fp32": 18.8, "bf16": 4.0}[p["precision"]]

        def track_step(self, precision):
            return 1

    def track_sweep():
        time.sleep(1.5)  # else there would be room for fp32 after all
        return 2
    track_sweep.cost_s, track_sweep.default_suite = 5.0, False

    def track_night():
        return 3
    track_night.cost_s, track_night.default_suite = 900.0, False
"""
BF16, FP32 = "suite.Step.track_step('bf16')", "suite.Step.track_step('fp32')"


@pytest.fixture
def project(working_folder: Any) -> GitProject:
    project = GitProject(working_folder)
    project.commit("A suite", benchmarks__suite=SUITE)
    return project


def run_json(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    capsys.readouterr()
    run_cli(["run", "--rounds", "1", "--json", *options])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_without_a_word_the_default_suite_is_measured(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [cell["cell"] for cell in run_json(capsys, "--plan")["cells"]] == [BF16]
    assert [cell["cell"] for cell in run_json(capsys, "--plan", "--bench", "sweep")["cells"]] == [
        "suite.track_sweep"
    ]
    assert run_cli(["run", "--rounds", "1"]) == 0
    captured = capsys.readouterr()
    assert "default suite: 1 of 4 cells; --suite full measures them all" in captured.err
    assert "1 processes measured: 1 ok" in captured.out


def test_a_selection_that_the_default_suite_lacks_is_an_error(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["run", "--suite", "default", "--bench", "sweep"]) == 2
    assert "no benchmark that was asked for is of the default suite" in capsys.readouterr().err


def test_the_plan_states_what_each_cell_costs_and_may_take(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    run_json(capsys, "--suite", "default")

    plan = run_json(capsys, "--suite", "full", "--plan")

    stated = {cell["cell"]: (cell["source"], cell["timeout_s"], cell["in_default"]) for cell in plan["cells"]}
    assert stated == {
        BF16: ("measured", 60.0, True),
        FP32: ("declared", 94.0, False),
        "suite.track_sweep": ("declared", 60.0, False),
        "suite.track_night": ("declared", 4500.0, False),
    }


def test_a_second_call_goes_on_where_the_budget_stopped(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    full = ("--suite", "full", "--budget", "20s")

    first, second = run_json(capsys, *full), run_json(capsys, *full)

    reasons = {left["cell"]: left["reason"] for left in first["left_out"]}
    assert reasons == {
        FP32: "it fits into the next call with this budget",
        "suite.track_night": "it takes longer than the whole budget of 20 s",
    }
    assert (first["processes"], second["processes"]) == (2, 1)
    assert second["session"] == first["session"]
    assert [left["cell"] for left in second["left_out"]] == ["suite.track_night"]


def test_names_what_is_left_out(project: GitProject, capsys: pytest.CaptureFixture[str]) -> None:
    code = run_cli(["run", "--rounds", "1", "--suite", "full", "--budget", "20s"])

    captured = capsys.readouterr()
    assert code == 0
    assert "4 cells in 1 visit: about 15 min 28 s (costs: 4 declared)" in captured.err
    assert f"left out: 1 cell (19 s), it fits into the next call with this budget: {FP32}" in captured.out
    assert "the same call again goes on here" in captured.out


def test_two_suites_at_once_are_a_usage_error(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["run", "--suite", "full", "--suite", "default"]) == 2
    assert "one folder and one of default and full may be given" in capsys.readouterr().err


def test_a_cell_that_takes_longer_than_planned_ends_the_call_and_the_next_goes_on(
    working_folder: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = """
        import time
        def track_slow(n):
            time.sleep(0.5)
            return n
        track_slow.params, track_slow.cost_s = [[1, 2, 3, 4]], 0.01
    """
    GitProject(working_folder).commit("Slower than it says", benchmarks__suite=suite)

    first = run_json(capsys, "--budget", "1s")
    second = run_json(capsys, "--budget", "100s")

    assert 1 <= first["processes"] < 4
    assert first["processes"] + second["processes"] == 4
    assert len(first["left_out"]) == 4 - first["processes"]
    assert "took longer than planned" in first["left_out"][0]["reason"]
    assert second["left_out"] == []


def test_fresh_pairs_that_do_not_fit_wait_for_the_next_call(
    working_folder: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = """
        from lib import LEVEL
        def track_level():
            return LEVEL
        track_level.clock, track_level.cost_s = "exact", 1.0
    """
    project = GitProject(working_folder)
    project.commit("Empty")
    project.commit("A level", lib="LEVEL = 100\n", benchmarks__suite=suite)
    project.commit("A higher one", lib="LEVEL = 130\n")
    command = ("--budget", "1h", "HEAD~2..HEAD")

    run_cli(["run", "--plan", command[-1]])
    plan = capsys.readouterr().out
    with monkeypatch.context() as patch:
        patch.setattr(AdaptivePairing, "_is_past_deadline", lambda pairing: len(pairing._pair_commits) >= 2)
        first = run_json(capsys, *command)
    second = run_json(capsys, *command)

    assert [(left["cell"], left["reason"]) for left in first["left_out"]] == [
        ("suite.track_level", UNCONFIRMED)
    ]
    assert {verdict["stage"] for verdict in first["verdicts"]} == {"screening"}
    assert (second["session"], second["left_out"]) == (first["session"], [])
    assert [(v["kind"], v["stage"], v["pairs"]) for v in second["verdicts"]] == [
        ("regression", "confirmation", 5)
    ]
    assert second["processes"] == 2 * 3
    assert "fresh pairs add 10 s to 40 s for each candidate change; --budget limits both" in plan


SEND = ["run", "--rounds", "1", "--suite", "full", "--budget", "20s", "--server", "http://127.0.0.1:9"]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of results in every run that would be sent."""
    results: list[int] = []

    def send(config: object, address: str, runs: list[Run]) -> None:
        results.extend(len(run.results) for run in runs)

    monkeypatch.setattr("perfci.cli.run.spool_and_send_runs", send)
    monkeypatch.setattr("perfci.cli.run.print_flush_report", lambda *report, **options: None)
    return results


def test_runs_are_sent_when_they_are_whole(
    project: GitProject, sent: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    run_cli(SEND)
    assert sent == []
    assert "not sent yet: runs are sent by the call that measures the last" in capsys.readouterr().err

    run_cli(SEND)
    assert sent == [3]


def test_a_job_of_github_sends_what_it_has_and_ends_its_session(
    project: GitProject, sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"ACTIONS": "true", "RUN_ID": "17", "RUN_ATTEMPT": "1", "JOB": "night"}.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)
    monkeypatch.setenv("GITHUB_EVENT_NAME", "schedule")

    run_cli(SEND)

    assert sent == [2]
    with sqlite3.connect(project.folder / ".perfci" / "perfci.db") as database:
        assert database.execute("select state from sessions").fetchall() == [("finished",)]
