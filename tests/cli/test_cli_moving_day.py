"""A history of asv and perfci's own runs after it: one honest break, and no change is seen across it."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from perfci.cli import run_cli
from perfci.formats import run_document
from perfci.history.result_summaries import summarize_processes
from perfci.store import open_store
from perfci.store.queries.measured_samples import load_histories_by_series_id
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.store.verdicts_and_change_points import load_change_points
from tests.support.builders import NOON, PROJECT, a_commit, a_process, a_result, a_run, a_series, a_sha
from tests.support.stored_runs import ingest_run

COLUMNS = ["result", "params", "version", "started_at", "duration", "samples"]
IMPORTED, OWN = range(1, 13), range(13, 18)


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


def test_asv_history_and_own_runs_are_two_series_with_a_break_that_is_said(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = ["--db", f"sqlite:///{working_folder}/perfci.db", "--project", PROJECT]
    assert run_cli([*database, "ingest", str(write_asv_results(working_folder / "results"))]) == 0
    own = a_series("suite.time_step", "time")
    with closing(open_store(f"sqlite:///{working_folder}/perfci.db", create=False)) as store:
        with store.begin() as tx:
            for number in OWN:
                processes = [a_process(1.0 + step / 1000, index=step) for step in range(3)]
                commit, moment = a_commit(number), NOON + timedelta(hours=number)
                run = a_run(a_result(own, *processes), commit=commit, session=f"s{number}", started_at=moment)
                key = run_document.idempotency_key(run)
                ingest_run(tx, run, key, "body", kind="history", summarize=summarize_processes)
        with store.read() as tx:
            series = load_project_series(tx, PROJECT)
            histories = load_histories_by_series_id(tx, list(series))
            lengths = {series[row_id].harness: len(points) for row_id, points in histories.items()}
            changes = load_change_points(tx, PROJECT)
    capsys.readouterr()

    run_cli([*database, "show", a_sha(OWN[0])])
    first = capsys.readouterr().out.splitlines()[-1]
    run_cli([*database, "show", a_sha(OWN[1])])

    assert (lengths, changes) == ({"asv": len(IMPORTED), "perfci/1": len(OWN)}, [])
    assert first.endswith(f"begins here: asv measured until {a_sha(IMPORTED[-1])[:10]}")
    assert f"changes since {a_sha(OWN[0])[:10]}" in capsys.readouterr().out
