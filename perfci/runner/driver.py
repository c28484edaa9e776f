"""Our side of the measured processes: starts the environment parent and turns its messages into model values."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from perfci.model import Clock, PerfciError, Status
from perfci.runner.prepare import Prepared
from perfci.runner.suite import Cell, DiscoveredBenchmark, Suite, read_discovered

HARNESS = "perfci-1"
"""Version of the measuring method: another one is another series."""

THREAD_POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
IMPORT_TIMEOUT_S = 600.0  # for importing torch, and for importing a commit with its suite


@dataclass(frozen=True, slots=True)
class MeasuredMetric:
    """The samples of one metric that one process gave, or why it gave none (``status`` skipped)."""

    name: str
    unit: str
    direction: Literal["lower", "higher"]
    clock: Clock
    number: int
    samples: tuple[float, ...]
    status: Status = Status.OK
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one fresh process of one cell ended. ``work_s`` is what setup, run and teardown took inside it."""

    cell: Cell
    status: Status
    reason: str
    metrics: tuple[MeasuredMetric, ...]
    started_at: datetime
    duration_s: float
    work_s: float
    exit_code: int | None
    stderr_tail: str
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Omission:
    """Groups of metrics that a class of the suite does not give, and why."""

    owner: str
    omits: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        *others, last = self.omits
        return f"{self.owner}: no {', '.join(others)}{' or ' * bool(others)}{last} metrics, because {self.reason}"


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a commit's import of the suite found, which of its modules failed, and what its classes leave out."""

    benchmarks: dict[str, DiscoveredBenchmark]
    errors: tuple[tuple[str, str], ...]
    omissions: tuple[Omission, ...] = ()


@dataclass(frozen=True, slots=True)
class Profiles:
    """Cells are to be profiled: the folder of each by its name, none for mere ranges; ``roots`` as lines_of takes."""

    folders: Mapping[str, str]
    roots: Mapping[str, str]


class EnvironmentParent:
    """A process of the measured environment that has imported torch and waits to be forked.

    A fresh one has another memory layout and hash seed, so renewing it between rounds turns what would be a bias
    between commits into ordinary noise between rounds.
    """

    def __init__(
        self, python: str, suite: Suite, *, launch: str = "fork", threads: int = 1, preload: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.suite = suite
        self._python = python
        self.launch = launch
        self.variables = dict(variables or {})
        self._visits = 0
        self._scratch = tempfile.mkdtemp(prefix="perfci-")
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = self._start(theirs, threads)
        self._socket = ours
        self._lines = _Lines(ours)
        try:
            self.hello = self._greet(preload)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> EnvironmentParent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up: the parent kills whatever it is supervising and ends."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def discover(self, prepared: Prepared) -> Discovery:
        discovery, outcomes = self._visit(prepared, [], None)
        for _ in outcomes:
            pass
        return discovery

    def measure(
        self, prepared: Prepared, cells: Sequence[Cell], caches: Path, profiles: Profiles | None = None
    ) -> Iterator[tuple[Outcome, Discovery]]:
        """Run each cell once in a fresh process, yielding every outcome as soon as it is there.

        Where ``profiles`` are asked for, the cells are profiled instead, and give no samples.
        """
        discovery, outcomes = self._visit(prepared, cells, caches, profiles)
        yield from ((outcome, discovery) for outcome in outcomes)

    @staticmethod
    def not_built(prepared: Prepared, cells: Sequence[Cell]) -> Iterator[tuple[Outcome, Discovery]]:
        """A commit that does not build is a result of every cell, with the build's log."""
        for cell in cells:
            yield _lost(cell, prepared.failure, tail=prepared.log), Discovery({}, ())

    def _visit(
        self, prepared: Prepared, cells: Sequence[Cell], caches: Path | None, profiles: Profiles | None = None
    ) -> tuple[Discovery, Iterator[Outcome]]:
        self._visits += 1
        request = {
            "visit": self._visits,
            "paths": list(prepared.paths),
            "own": [str(prepared.tree), *prepared.paths],
            "modules": [name for name in prepared.modules if name != self.suite.name],
            "suite": str(self.suite.folder),
            "cells": [_cell_message(cell, caches, prepared.commit.sha, profiles) for cell in cells],
            "scratch": self._scratch,
            "env": self.variables,
            "launch": self.launch,
            "visit_timeout_s": IMPORT_TIMEOUT_S + sum(c.timeout_s + c.setup_cache_timeout_s for c in cells),
        }
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        first = self._next()
        if first["event"] != "suite":
            reason = "importing the suite did not end" if first.get("timed_out") else "importing the suite crashed"
            nothing = Discovery({}, ((self.suite.name, f"{reason} (status {first.get('status')})"),))
            return nothing, iter([_not_imported(cell, nothing) for cell in cells])
        errors = tuple((error["module"], error["error"]) for error in first["errors"])
        discovery = Discovery(read_discovered(first["benchmarks"]), errors, _omissions(first["notes"]))
        return discovery, self._outcomes(list(cells))

    def _outcomes(self, cells: list[Cell]) -> Iterator[Outcome]:
        left = list(cells)
        while (message := self._next())["event"] == "cell":
            yield _outcome(left.pop(0), message)
            self._socket.sendall(b"\n")  # whoever asked has dealt with it: the next process may start
        for cell in left:
            yield _lost(cell, f"the process that supervised this cell ended (status {message.get('status')})")

    def _start(self, theirs: socket.socket, threads: int) -> subprocess.Popen[bytes]:
        script = Path(__file__).with_name("harness")
        env = {**os.environ, **dict.fromkeys(THREAD_POOLS, str(threads)), **self.variables, "PYTHONUNBUFFERED": "1"}
        command = [self._python, str(script), str(theirs.fileno())]
        try:
            with self._log("wb") as log:
                return subprocess.Popen(
                    command, pass_fds=[theirs.fileno()], env=env, cwd=self._scratch, start_new_session=True,
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                )  # fmt: skip
        except OSError as error:
            raise PerfciError(f"the interpreter {self._python} does not start: {error.strerror}") from None

    def _greet(self, preload: Sequence[str]) -> dict[str, Any]:
        hello = {"preload": list(preload), "parent": os.getpid()}
        self._socket.sendall(json.dumps(hello).encode() + b"\n")
        return self._next()

    def _next(self) -> dict[str, Any]:
        message = self._lines.next()
        if message is None:
            with self._log("rb") as log:
                text = log.read().decode("utf-8", "replace").strip()
            last = text.splitlines()[-1] if text else f"status {self._process.wait()}"
            raise PerfciError(f"the environment {self._python} cannot measure: {last}")
        return message

    def _log(self, mode: str) -> Any:
        return open(os.path.join(self._scratch, "parent.log"), mode)


class _Lines:
    """Messages from a socket, one line of JSON each; reading stays interruptible by Ctrl-C."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""

    def next(self) -> dict[str, Any] | None:
        while b"\n" not in self._rest:
            select.select([self._connection], [], [])
            piece = self._connection.recv(1 << 16)
            if not piece:
                return None
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message


def _cell_message(cell: Cell, caches: Path | None, sha: str, profiles: Profiles | None) -> dict[str, Any]:
    cache = ""
    if cell.setup_cache_key is not None and caches is not None:
        cache = str(caches / sha / cell.setup_cache_key.replace(os.sep, "_"))
    return {
        "benchmark": cell.benchmark,
        "param_idx": cell.param_idx,
        "timeout_s": cell.timeout_s,
        "cache_dir": cache,
        "setup_cache_timeout_s": cell.setup_cache_timeout_s,
        "profile": profiles and {"folder": profiles.folders.get(cell.name, ""), "roots": dict(profiles.roots)},
    }


def _omissions(notes: Sequence[Mapping[str, str]]) -> tuple[Omission, ...]:
    """One for all that a class leaves out for the same reason."""
    together: dict[tuple[str, str], list[str]] = {}
    for note in notes:
        together.setdefault((note["owner"], note["reason"]), []).append(note["omits"])
    return tuple(Omission(owner, tuple(omits), reason) for (owner, reason), omits in together.items())


def _outcome(cell: Cell, message: Mapping[str, Any]) -> Outcome:
    return Outcome(
        cell=cell,
        status=Status(message["status"]),
        reason=message["reason"],
        metrics=tuple(_metric(metric) for metric in message["metrics"]),
        started_at=datetime.fromtimestamp(message["started_at"], UTC),
        duration_s=message["duration_s"],
        work_s=message["work_s"],
        exit_code=message["exit_code"],
        stderr_tail=message["stderr_tail"],
        flags=tuple(message["flags"]),
    )


def _metric(message: Mapping[str, Any]) -> MeasuredMetric:
    return MeasuredMetric(
        name=message["name"],
        unit=message["unit"],
        direction=message["direction"],
        clock=Clock(message["clock"]),
        number=message["number"],
        samples=tuple(message["samples"]),
        status=Status(message["status"]),
        reason=message["reason"],
    )


def _lost(cell: Cell, reason: str, status: Status = Status.FAILED, tail: str = "") -> Outcome:
    return Outcome(cell, status, reason, (), datetime.now(UTC), 0.0, 0.0, None, tail, ())


def _not_imported(cell: Cell, discovery: Discovery) -> Outcome:
    return _lost(cell, discovery.errors[0][1])
