"""Count the files and functions that two journeys through the running service visit.

Usage::

    python tools/count_visited_functions.py            # the two counts
    python tools/count_visited_functions.py --list     # with every function, in the order of the first visit

The journeys run on a real application and a real SQLite database in a temporary folder:

upload
    One ``POST /api/v1/runs``, from the request to the answer, which comes once the rows are committed. The
    upload before it, of the same project and series, has started whatever starts lazily.

incident
    One ``JudgeWorker.step`` over sixteen uploads, one for each commit, of which the ninth and all later ones
    are a fifth slower. It ends with the change point and a new incident in the database.

Counted is each function or method of ``perfci`` and ``perfci_web`` whose code runs at least once between
start and end, in any thread of the process; ``files`` are the modules they stand in. Properties, generators,
nested functions and the wrappers of decorators are functions like any other. Not counted are module and class
bodies, lambdas, comprehensions and generator expressions, the methods that ``dataclasses`` generates, what a
client does to write the upload, and everything outside the two packages.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import CodeType, FrameType

from flask.testing import FlaskClient

import perfci
import perfci_web
from perfci.config import Settings
from perfci.formats import run_document
from perfci.model import (
    Benchmark,
    Clock,
    Commit,
    Environment,
    Machine,
    Metric,
    Process,
    Result,
    Run,
    Series,
    Status,
    Variant,
)
from perfci.net.url_segments import encode_segment
from perfci.project_policies import build_project_policies
from perfci.service.worker.judge_worker import JudgeWorker
from perfci.store import Store, open_store
from perfci.store.projects import create_project
from perfci_web import create_app

PROJECT = "acme/model"
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOW = START + timedelta(days=30)

COMMITS = 16
FIRST_SLOW_COMMIT = 9
SLOWDOWN = 1.2
PROCESS_WOBBLES = (1.0, 1.001, 0.999)

SETTLE_S = 0.2
"""How long the writing thread may take to come to rest after its answer."""

FOLDERS = tuple(Path(package.__file__ or "").parent for package in (perfci, perfci_web))


@dataclass
class Recorder:
    """Notes each function of the project at its first call, in any thread started while ``installed``."""

    visited: dict[CodeType, None] = field(default_factory=dict)
    _recording: bool = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @contextmanager
    def recording(self) -> Iterator[None]:
        self.visited.clear()
        self._recording = True
        try:
            yield
            time.sleep(SETTLE_S)
        finally:
            self._recording = False

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if (
            self._recording
            and event == "call"
            and frame.f_code not in self.visited
            and is_project_code(frame.f_code)
        ):
            self.visited[frame.f_code] = None


def is_project_code(code: CodeType) -> bool:
    """Whether this is the code of a named function in one of the two packages."""
    is_function = bool(code.co_flags & inspect.CO_OPTIMIZED) and not code.co_name.startswith("<")
    return is_function and code.co_filename.startswith(tuple(f"{folder}/" for folder in FOLDERS))


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the files and functions that two journeys visit.")
    parser.add_argument("--list", action="store_true", help="print the functions in order of the first visit")
    options = parser.parse_args()
    print("| journey | files | functions |\n|---|---|---|")
    journeys = {"an upload to rows": upload_journey(), "a step to an incident": incident_journey()}
    for name, visited in journeys.items():
        print(f"| {name} | {len({code.co_filename for code in visited})} | {len(visited)} |")
    if options.list:
        for name, visited in journeys.items():
            print_visits(name, visited)


def print_visits(name: str, visited: list[CodeType]) -> None:
    print(f"\n{name}:")
    for code in visited:
        print(f"{relative_path(Path(code.co_filename))}:{code.co_firstlineno} {code.co_qualname}")


def relative_path(file: Path) -> str:
    [folder] = [folder for folder in FOLDERS if folder in file.parents]
    return file.relative_to(folder.parent).as_posix()


def upload_journey() -> list[CodeType]:
    recorder = Recorder()
    with recorder.installed(), running_service() as (_, client):
        post_upload(client, *build_upload_request(build_run(1)))
        body, headers = build_upload_request(build_run(2))
        with recorder.recording():
            post_upload(client, body, headers)
    return list(recorder.visited)


def incident_journey() -> list[CodeType]:
    recorder = Recorder()
    with recorder.installed(), running_service() as (store, client):
        for number in range(1, COMMITS + 1):
            post_upload(client, *build_upload_request(build_run(number)))
        worker = JudgeWorker(store, partial(build_project_policies, Settings()), clock=lambda: NOW)
        with recorder.recording():
            judged = worker.run_once()
        incidents = client.get(f"/api/v1/projects/{encode_segment(PROJECT)}/incidents").get_json()["items"]
    assert judged == COMMITS, f"{judged} of {COMMITS} uploads were judged"
    assert len(incidents) == 1, f"{len(incidents)} incidents instead of one"
    return list(recorder.visited)


@contextmanager
def running_service() -> Iterator[tuple[Store, FlaskClient]]:
    """An application over a new database with one project."""
    with tempfile.TemporaryDirectory() as folder, closing(create_store(Path(folder))) as store:
        with store.begin() as transaction:
            create_project(transaction, PROJECT, "private", START)
        app = create_app(store, read_only=False, clock=lambda: NOW)
        try:
            yield store, app.test_client()
        finally:
            app.extensions["perfci"].group_commit.close()


def create_store(folder: Path) -> Store:
    return open_store(f"sqlite:///{folder}/perfci.db", create=True)


def post_upload(client: FlaskClient, body: bytes, headers: Mapping[str, str]) -> None:
    answer = client.post("/api/v1/runs", data=body, headers=headers)
    assert answer.status_code == 201, answer.text


def build_upload_request(run: Run) -> tuple[bytes, dict[str, str]]:
    headers = {"Idempotency-Key": run_document.idempotency_key(run), "Content-Type": "application/json"}
    return run_document.dump_run(run).encode(), headers


def build_run(number: int) -> Run:
    """One benchmark, measured in three processes on the commit with this number."""
    machine = Machine(cpu="AMD EPYC", cores=2, memory_gb=23)
    return Run(
        project=PROJECT,
        session=f"session-{number}",
        commit=build_commit(number),
        machine=machine,
        environment=Environment((("torch", "2.13.0"),)),
        variant=Variant(),
        suite="benchmarks",
        harness="perfci/1",
        started_at=START + timedelta(hours=number),
        results=(build_result(number, machine),),
    )


def build_commit(number: int) -> Commit:
    return Commit(
        sha=build_sha(number),
        subject=f"Change number {number}",
        author="Ada",
        committed_at=START + timedelta(hours=number),
        parents=(build_sha(number - 1),) if number > 1 else (),
        branch="main",
        position=number,
    )


def build_sha(number: int) -> str:
    return f"{number:08x}".ljust(40, "c")


def build_result(number: int, machine: Machine) -> Result:
    level_s = SLOWDOWN if number >= FIRST_SLOW_COMMIT else 1.0
    series = Series(
        benchmark=Benchmark("training.Step.time_step", "1"),
        parameters=(),
        metric=Metric("time", "seconds", "lower"),
        machine=machine,
        variant=Variant(),
        harness="perfci/1",
    )
    processes = tuple(build_process(index, level_s * wobble) for index, wobble in enumerate(PROCESS_WOBBLES))
    return Result(series, processes=processes, status=Status.OK)


def build_process(index: int, sample_s: float) -> Process:
    return Process(
        index=index,
        samples=(sample_s,),
        clock=Clock.WALL,
        round=0,
        order=0,
        started_at=START,
        duration_s=1.5,
        exit_code=0,
    )


if __name__ == "__main__":
    main()
