"""``perfci rename`` joins histories: of a benchmark, with a parameter that was added, and of a machine."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from perfci.cli import run_cli
from perfci.formats import run_document
from perfci.history.result_summaries import summarize_processes
from perfci.model import Machine, Metric, Series
from perfci.store import Store, check_integrity
from perfci.store.incidents.incident_lists import list_incidents
from perfci.store.projects import find_project
from perfci.store.queries.measured_samples import load_histories_by_series_id, load_run
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.store.verdicts_and_change_points import add_verdicts, load_change_points, load_verdict_records
from tests.support.builders import (
    NOON,
    PROJECT,
    a_commit,
    a_machine,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_verdict,
)
from tests.support.databases import database_url as database_url
from tests.support.databases import kind as kind
from tests.support.databases import store as store
from tests.support.stored_runs import ingest_run

OLD = a_series("suite.time_old", version="v1")
NEW = a_series("suite.time_new", version="v2")


@pytest.fixture
def here(working_folder: Path) -> Path:
    return working_folder


def measure(store: Store, series: Series, numbers: range, level: float = 1.0) -> None:
    with store.begin() as tx:
        for number in numbers:
            processes = [a_process(level * (1 + step / 1000), index=step) for step in range(3)]
            run = a_run(
                a_result(series, *processes),
                commit=a_commit(number),
                session=f"s{number}",
                started_at=NOON + timedelta(hours=number),
                machine=series.machine,
            )
            key = run_document.idempotency_key(run)
            ingest_run(tx, run, key, "body", summarize=summarize_processes)


def rename(store: Store, *arguments: str) -> int:
    return run_cli(["--db", store.url, "--project", PROJECT, "rename", *arguments])


def histories(store: Store) -> dict[Series, int]:
    with store.read() as tx:
        series = load_project_series(tx, PROJECT)
        points = load_histories_by_series_id(tx, list(series))
        return {item: len(points[row_id]) for row_id, item in series.items()}


def test_a_renamed_benchmark_has_one_history_whose_changes_cross_the_seam(
    store: Store, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(store, OLD, range(1, 11))
    measure(store, NEW, range(11, 21), 1.3)
    with store.begin() as tx:
        add_verdicts(tx, PROJECT, "s2", [a_verdict(OLD, base=a_sha(1), head=a_sha(2))], NOON)

    assert rename(store, "benchmark", "suite.time_old", "suite.time_new") == 0

    with store.read() as tx:
        changes = load_change_points(tx, PROJECT)
        (verdict,) = load_verdict_records(tx, PROJECT)
        project = find_project(tx, PROJECT)
        incidents = list_incidents(tx, project.id)
    assert histories(store) == {NEW: 20}
    assert [(change.series, change.commit) for change in changes] == [(NEW, a_sha(11))]
    assert (verdict.verdict.series, len(incidents)) == (NEW, 2)
    assert "suite.time_old goes on as suite.time_new: 10 results in 1 series" in capsys.readouterr().out
    assert check_integrity(store.url) == []


def test_what_still_arrives_under_the_old_name_goes_to_the_new_one(
    store: Store, working_folder: Path
) -> None:
    measure(store, OLD, range(1, 4))
    rename(store, "benchmark", "suite.time_old", "suite.time_new")

    measure(store, OLD, range(4, 6))

    assert histories(store) == {a_series("suite.time_new", version="v1"): 5}


def test_a_benchmark_can_be_renamed_back(store: Store, here: Path) -> None:
    measure(store, OLD, range(1, 4))

    rename(store, "benchmark", "suite.time_old", "suite.time_new")
    rename(store, "benchmark", "suite.time_new", "suite.time_old")

    assert histories(store) == {OLD: 3}


def test_an_added_parameter_has_a_default_for_the_results_from_before(
    store: Store, working_folder: Path
) -> None:
    added = a_series("suite.time_old", version="v1", parameters={"dtype": "'fp32'"})
    measure(store, OLD, range(1, 4))
    measure(store, added, range(4, 6))

    rename(store, "benchmark", "suite.time_old", "suite.time_old", "--default", "dtype='fp32'")

    assert histories(store) == {added: 5}


def test_an_added_parameter_stands_where_the_suite_has_it_and_is_spelled_as_there(
    store: Store, here: Path
) -> None:
    old = a_series("suite.time_old", version="v1", parameters={"layers": "2", "batch": "1"})
    added = {"layers": "2", "dtype": "'fp32'", "batch": "1"}
    new = a_series("suite.time_old", version="v2", parameters=added)
    other = a_series("suite.time_old", version="v2", parameters=added | {"dtype": "'bf16'"})
    measure(store, old, range(1, 4))
    measure(store, other, range(4, 6))
    measure(store, new, range(6, 8))

    rename(store, "benchmark", "suite.time_old", "suite.time_old", "--default", "dtype=fp32")
    measure(store, replace(old, parameters=(("layers", "4"), ("batch", "1"))), range(8, 9))

    later = replace(new, parameters=(("layers", "4"), ("dtype", "'fp32'"), ("batch", "1")))
    assert histories(store) == {new: 5, other: 2, later: 1}


def test_a_cell_or_metric_that_is_new_follows_its_renamed_benchmark_and_machine(
    store: Store, here: Path
) -> None:
    box = Machine(name="asv-box")
    measure(store, replace(OLD, machine=box), range(1, 3))
    rename(store, "benchmark", "suite.time_old", "suite.time_new")
    rename(store, "machine", "asv-box", "lab")

    memory = replace(OLD, metric=Metric("memory", "bytes"), machine=box)
    measure(store, memory, range(3, 5))
    measure(store, a_series("suite.time_other", machine=box), range(5, 6))

    lab = Machine(name="lab")
    kept = {(item.benchmark.name, item.metric.name, item.machine): n for item, n in histories(store).items()}
    assert kept == {
        ("suite.time_new", OLD.metric.name, lab): 2,
        ("suite.time_new", "memory", lab): 2,
        ("suite.time_other", OLD.metric.name, lab): 1,
    }


def test_a_dry_run_says_how_much_would_move_and_moves_nothing(
    store: Store, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(store, OLD, range(1, 4))
    measure(store, NEW, range(4, 6))

    assert rename(store, "benchmark", "suite.time_old", "suite.time_new", "--dry-run") == 0

    assert histories(store) == {OLD: 3, NEW: 2}
    assert capsys.readouterr().out == (
        "suite.time_old would go on as suite.time_new: 3 results in 1 series, "
        "1 of which had results under the new name\n"
    )


def test_a_renamed_machine_keeps_its_history_and_its_runs_can_be_exported(
    store: Store, working_folder: Path
) -> None:
    box = a_series("suite.time_old", version="v1", machine=Machine(name="asv-box"))
    measure(store, box, range(1, 4))
    measure(store, OLD, range(4, 6))

    rename(store, "machine", "asv-box", a_machine().label)
    measure(store, box, range(6, 7))

    with store.read() as tx:
        document = run_document.dump_run(load_run(tx, 1))
    assert histories(store) == {OLD: 6}
    assert run_document.read_run(document.encode()).machine == a_machine()


def test_a_name_without_results_is_refused(
    store: Store, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(store, OLD, range(1, 2))

    assert rename(store, "benchmark", "suite.time_odl", "suite.time_new") == 2
    assert capsys.readouterr().err == (
        "perfci: acme/model has no results of a benchmark suite.time_odl that this would change.\n"
    )


def test_deleting_a_run_keeps_where_an_old_name_leads(store: Store, here: Path) -> None:
    measure(store, OLD, range(1, 4))
    rename(store, "benchmark", "suite.time_old", "suite.time_new")
    with store.read() as tx:
        key = run_document.idempotency_key(load_run(tx, 1))

    run_cli(["--db", store.url, "--project", PROJECT, "delete", "run", key, "--yes"])
    measure(store, OLD, range(4, 5))

    assert histories(store) == {a_series("suite.time_new", version="v1"): 3}
