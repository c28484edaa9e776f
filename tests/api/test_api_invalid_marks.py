"""Results marked invalid are kept and shown; nothing is derived from them until the mark is taken back."""

from __future__ import annotations

import csv
import io
from contextlib import closing
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from api_client import NOW, Api

from perfci.formats import run_document
from perfci.history.result_summaries import summarize_processes
from perfci.model import VerdictKind
from perfci.project_policies import ProjectPolicies
from perfci.service.export_history import INVALID_LEFT_OUT, export_history
from perfci.service.uploads.import_files import import_file_or_folder
from perfci.service.worker.judge_worker import JudgeWorker
from perfci.store import Store, check_integrity, open_store
from perfci.store.column_conversions import series_identity
from perfci.store.jobs.work_queue_and_leases import enqueue_work
from perfci.store.projects import find_project
from perfci.store.queries.invalid_marks import list_invalid_marks
from perfci.store.verdicts_and_change_points import add_verdicts, load_change_points, load_verdict_records
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
from tests.support.stored_runs import ingest_run

HERE = "/api/v1/projects/acme:model"
SERIES = series_identity(PROJECT, a_series())
SIZE = a_series("suite.peakmem", metric="memory", unit="bytes")
COMMITS, BAD = 20, 14
"""The number of commits, and the first one whose run met a busy machine and looks a fifth slower."""


@pytest.fixture
def keys(store: Store) -> dict[int, str]:
    """The keys of the runs of all commits by number."""
    keys = {}
    with store.begin() as tx:
        for number in range(1, COMMITS + 1):
            level = 1.0 if number < BAD else 1.2
            processes = [a_process(level * (1 + step / 1000), index=step) for step in range(3)]
            run = a_run(
                a_result(None, *processes),
                a_result(SIZE, a_process(64.0)),
                commit=a_commit(number),
                session=f"s{number}",
                started_at=NOON + timedelta(hours=number),
            )
            keys[number] = run_document.idempotency_key(run)
            body_hash = sha256(run_document.dump_run(run).encode()).hexdigest()
            ingest_run(tx, run, keys[number], body_hash, summarize=summarize_processes)
        project = find_project(tx, PROJECT)
        enqueue_work(tx, project.id, "judge", keys.values(), NOON)
    return keys


@pytest.fixture
def judge(store: Store) -> JudgeWorker:
    return JudgeWorker(store, lambda _: ProjectPolicies(), clock=lambda: NOW)


def change_points(store: Store) -> list[str]:
    with store.read() as tx:
        return [change.commit for change in load_change_points(tx, PROJECT)]


def mark(api: Api, address: str, reason: str = "the machine was shared") -> int:
    return api.client.put(f"{HERE}/{address}/invalid-mark", json={"reason": reason}).status_code


def test_no_change_rests_on_invalid_runs_until_they_are_valid_again(
    api: Api, store: Store, keys: dict[int, str], judge: JudgeWorker
) -> None:
    judge.drain()
    before = change_points(store)

    statuses = {mark(api, f"runs/{keys[number]}") for number in range(BAD, COMMITS + 1)}
    judge.drain()
    while_marked = change_points(store), api.get("/projects/acme:model/incidents").json["items"][0]["open"]
    for number in range(BAD, COMMITS + 1):
        api.client.delete(f"{HERE}/runs/{keys[number]}/invalid-mark")
    judge.drain()

    assert (before, statuses, while_marked) == ([a_sha(BAD)], {204}, ([], False))
    assert change_points(store) == before
    assert check_integrity(store.url) == []


def test_a_point_is_marked_in_one_series_and_says_who_and_why(api: Api, keys: dict[int, str]) -> None:
    status = mark(api, f"series/{SERIES}/points/{a_sha(5)}")

    pair = f"{a_sha(4)}...{a_sha(5)}"
    items = api.get(f"/projects/acme:model/comparisons/{pair}/summaries").json["items"]
    levels = {item["series"]: item.get("head") for item in items}
    (item,) = api.get("/projects/acme:model/invalid-marks").json["items"]
    entry = api.get("/projects/acme:model/audit").json["items"][0]
    assert (status, levels) == (204, {SERIES: None, series_identity(PROJECT, SIZE): 64.0})
    assert (item["run"], item["commit"], item["series"]) == (keys[5], a_sha(5), SERIES)
    assert (item["reason"], item["marked_by"]) == ("the machine was shared", "local")
    assert (entry["action"], entry["detail"]) == ("point.invalidate", {"reason": "the machine was shared"})


def test_what_is_not_there_cannot_be_marked(api: Api, keys: dict[int, str]) -> None:
    assert mark(api, f"runs/{'0' * 64}") == 404
    assert mark(api, f"series/{SERIES}/points/{a_sha(99)}") == 404
    assert mark(api, f"runs/{keys[1]}", reason="") == 400


def test_a_verdict_on_an_invalid_run_does_not_stand(api: Api, store: Store, keys: dict[int, str]) -> None:
    with store.begin() as tx:
        verdict = a_verdict(a_series(), VerdictKind.REGRESSION, base=a_sha(4), head=a_sha(5))
        add_verdicts(tx, PROJECT, "s5", [verdict], NOW)

    def standing() -> int:
        with store.read() as tx:
            return len(load_verdict_records(tx, PROJECT, head=a_sha(5)))

    before = standing()
    mark(api, f"runs/{keys[5]}")
    marked = standing()
    api.client.delete(f"{HERE}/runs/{keys[5]}/invalid-mark")

    assert (before, marked, standing()) == (1, 0, 1)


def test_exports_carry_marks_and_say_where_they_cannot(api: Api, store: Store, keys: dict[int, str]) -> None:
    mark(api, f"runs/{keys[5]}")
    mark(api, f"series/{SERIES}/points/{a_sha(6)}", "thermal throttling")
    losses: list[str] = []

    table = b"".join(export_history(store, PROJECT, "csv", losses.append)).decode()
    documents = list(export_history(store, PROJECT, "perfci", losses.append))
    records = b"".join(export_history(store, PROJECT, "pytorch", losses.append))

    marked = [(row["commit"], row["invalid"]) for row in csv.DictReader(io.StringIO(table)) if row["invalid"]]
    why = "the machine was shared"
    assert marked == [(a_sha(5), why), (a_sha(5), why), (a_sha(6), "thermal throttling")]
    runs = [run_document.read_run(document) for document in documents]
    assert [run.invalid.reason for run in runs if run.invalid] == [why]
    assert INVALID_LEFT_OUT in losses
    assert f'"head_sha":"{a_sha(5)}"'.encode() not in records


def test_an_export_keeps_its_marks_where_it_is_read_again(
    api: Api, store: Store, keys: dict[int, str], tmp_path: Path
) -> None:
    mark(api, f"runs/{keys[5]}")
    mark(api, f"series/{SERIES}/points/{a_sha(6)}", "thermal throttling")
    (tmp_path / "runs.json").write_bytes(b"".join(export_history(store, PROJECT, "perfci", print)))

    same = import_file_or_folder(store, tmp_path / "runs.json", "auto", PROJECT)
    with closing(open_store(f"sqlite:///{tmp_path}/other.db", create=True)) as other:
        import_file_or_folder(other, tmp_path / "runs.json", "auto", PROJECT)
        with other.read() as tx:
            project = find_project(tx, PROJECT)
            marks = list_invalid_marks(tx, project.id)

    assert (same.runs_new, same.runs_known) == (0, COMMITS)
    assert [(m.sha, m.series_identity, m.mark.reason) for m in marks] == [
        (a_sha(5), None, "the machine was shared"),
        (a_sha(6), SERIES, "thermal throttling"),
    ]
