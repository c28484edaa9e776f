"""``perfci run`` and ``perfci compare`` on a suite whose one function gives many metrics."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from pathlib import Path

import pytest

from perfci.cli import run_cli
from tests.support.git_project import GitProject

SUITE = """
    import thing
    from perfci.bench import Absent, Bench, Clock, Measurement, Metric, Reading, exact, metrics, informational

    class Model(Bench):
        omitted = {"generation": "it defines no stream"}

        @metrics(
            Metric("ttft", "seconds"), Metric("peak", "bytes"), Metric("speed", "tokens/s", "higher"),
            Metric("reserved", "bytes"),
        )
        def measure_reply(self):
            return Measurement({
                "ttft": Reading((1.0, 1.0), Clock.WALL, cpu=(0.5, 0.5)),
                "peak": exact(thing.BYTES),
                "speed": informational(thing.BYTES / 10),
                "reserved": Absent("this machine has no accelerator"),
            }, flags=thing.FLAGS)
"""
CELL = "models.Model.measure_reply"


def a_project(folder: Path, *sizes: int | None, flags: tuple[str, ...] = ()) -> GitProject:
    project = GitProject(folder)
    for size in sizes:
        project.commit(f"Take {size}", thing=f"BYTES, FLAGS = {size}, {flags}\n", benchmarks__models=SUITE)
    return project


def read_verdicts(path: Path) -> dict[str, tuple[str, str]]:
    """Kind and reason of the verdict on each metric."""
    verdicts = json.loads(path.read_text())["verdicts"]
    return {verdict["series"]["metric"]["name"]: (verdict["kind"], verdict["reason"]) for verdict in verdicts}


def test_compare_judges_each_metric_once_and_no_informational_metric(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_project(working_folder, 1000, 1200)

    code = run_cli(["compare", "HEAD~1", "HEAD", "--json", "result.json"])

    kinds = {metric: kind for metric, (kind, _) in read_verdicts(working_folder / "result.json").items()}
    complaint = f"  {CELL}: not available: reserved: this machine has no accelerator"
    error_output = capsys.readouterr().err
    assert code == 1
    assert kinds == {"cpu_ttft": "unchanged", "peak": "regression"}
    assert error_output.count("models.Model: no generation metrics, because it defines no stream") == 1
    assert error_output.count(complaint) == 1


def test_run_stores_every_metric_of_a_process(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_project(working_folder, 1000, flags=("throttled: SM clock at 60 %",))

    assert run_cli(["run", "--rounds", "1"]) == 0
    assert "1 processes measured: 1 ok" in capsys.readouterr().out

    assert run_cli(["export", "--format", "csv"]) == 0
    exported = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert [(row["metric"], row["status"], row["value"]) for row in exported] == [
        ("cpu_ttft", "ok", "0.5"),
        ("peak", "ok", "1000.0"),
        ("reserved", "skipped", ""),
        ("speed", "ok", "100.0"),
        ("ttft", "ok", "1.0"),
    ]
    with sqlite3.connect(working_folder / ".perfci" / "perfci.db") as database:
        stored = database.execute("select distinct flags from processes").fetchall()
    assert stored == [('["throttled: SM clock at 60 %"]',)]


def test_history_detects_changes_in_judged_metrics_only(working_folder: Path) -> None:
    a_project(working_folder, *[1000] * 7, *[1500] * 7)

    assert run_cli(["run", "HEAD~13..HEAD", "--rounds", "1", "--no-confirm"]) == 0

    with sqlite3.connect(working_folder / ".perfci" / "perfci.db") as database:
        moved = database.execute(
            "select s.metric from change_points c join series s on c.series_id = s.id"
        ).fetchall()
    assert moved == [("peak",)]


def test_a_head_that_fails_has_failed_in_each_judged_metric(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_project(working_folder, 1000, None)

    code = run_cli(["compare", "HEAD~1", "HEAD", "--json", "result.json"])

    result = read_verdicts(working_folder / "result.json")
    assert code == 1
    assert {metric: kind for metric, (kind, _) in result.items()} == {"cpu_ttft": "failed", "peak": "failed"}
    assert all("float() argument must be" in reason for _, reason in result.values())


def test_throttled_processes_leave_the_comparison_open(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = a_project(working_folder, 1000)
    project.commit("Throttle", thing="BYTES, FLAGS = 1000, ('throttled: SM clock at 60 %',)\n")

    code = run_cli(["compare", "HEAD~1", "HEAD", "--strict", "--json", "result.json"])

    reason = "There is nothing to judge: 5 of 10 processes, flagged throttled: SM clock at 60 %."
    assert code == 3
    assert read_verdicts(working_folder / "result.json") == {
        "cpu_ttft": ("inconclusive", reason),
        "peak": ("inconclusive", reason),
    }


def test_stops_measuring_pairs_where_most_are_flagged(working_folder: Path) -> None:
    project = GitProject(working_folder)
    project.write("perfci.toml", "[judge]\nmax_pairs = 6\n")
    suite = """
        import os
        from perfci.bench import Measurement, Metric, metrics

        @metrics(Metric("level", "ratio"))
        def measure_level():
            with open(os.environ["SEEN"], "a") as seen:
                seen.write("x")
                early = seen.tell() <= 2
            return Measurement({"level": 1.0}, flags=() if early else ("shared_gpu: a neighbour",))
    """
    project.commit("One", benchmarks__models=suite)
    seen = working_folder / "seen"

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEEN", str(seen))
        code = run_cli(["compare", "HEAD", "HEAD", "--json", "result.json"])

    kind, reason = read_verdicts(working_folder / "result.json")["level"]
    assert code == 0
    assert (kind, len(seen.read_text())) == ("inconclusive", 2 * 2 * 6)
    assert reason.endswith("Not judged: 22 of 24 processes, flagged shared_gpu: a neighbour.")
