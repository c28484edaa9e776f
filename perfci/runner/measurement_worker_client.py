"""Workers of a measured environment: talk to each over its socket, one commit after another or by turns."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfci.model import PerfciError
from perfci.runner.cell_outcomes import (
    CellOutcome,
    Discovery,
    build_failed_outcome,
    parse_omissions,
    parse_outcome,
)
from perfci.runner.frozen_suite import FrozenSuite
from perfci.runner.prepare_commit import PreparedCommit
from perfci.runner.suite_cells import Cell, parse_benchmarks
from perfci.runner.turn_scheduler import TurnScheduler

IMPORT_TIMEOUT_S = 600.0  # for importing torch, and for importing a commit with its suite

CellResult = tuple[CellOutcome, Discovery]


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """Profiling request: output folder by cell name (none: NVTX ranges), ``roots`` as in ``sample_calls``.

    ``sampled_cpu_s`` are the CPU seconds for which lines are sampled; None leaves them to the profiler.
    """

    folders: Mapping[str, str]
    roots: Mapping[str, str]
    sampled_cpu_s: float | None = None


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Settings of the environment that a worker belongs to."""

    suite: FrozenSuite
    launch: str
    variables: Mapping[str, str]
    exit_reason: Callable[[], str]


def close_connection(connection: socket.socket) -> None:
    """Shut a connection down for both sides, even where other processes hold a copy of the socket."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


class JsonLineReader:
    """Messages from a socket, one line of JSON each; reading stays interruptible by Ctrl-C."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""

    @property
    def has_message(self) -> bool:
        """Whether a whole message was received already."""
        return b"\n" in self._rest

    def read_message(self) -> dict[str, Any] | None:
        """Read the next message; None where the other side has hung up."""
        while b"\n" not in self._rest:
            select.select([self._connection], [], [])
            piece = self._connection.recv(1 << 16)
            if not piece:
                return None
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message


class MeasurementWorkerClient:
    """A process that visits one commit at a time; commits measured beside each other have a worker each."""

    def __init__(self, connection: socket.socket, settings: WorkerSettings, scratch: Path) -> None:
        self.connection = connection
        self._settings = settings
        self._scratch = scratch
        self._reader = JsonLineReader(connection)
        scratch.mkdir()

    def close(self) -> None:
        """Hang up: the worker kills what it supervises and ends."""
        close_connection(self.connection)

    def discover_suite(self, prepared: PreparedCommit) -> Discovery:
        """Import the suite against a commit and list what it holds."""
        visit = self.start_visit(prepared, [], None)
        visit.wait_for_end()
        return visit.discovery

    def measure_cells(
        self,
        prepared: PreparedCommit,
        cells: Sequence[Cell],
        caches: Path,
        profiles: ProfileRequest | None = None,
    ) -> Iterator[CellResult]:
        """Run each cell once in a fresh process, yielding every outcome as soon as it is there.

        With ``profiles`` the cells are profiled instead, and give no samples.
        """
        visit = self.start_visit(prepared, cells, caches, profiles)
        for cell in cells:
            visit.start_next_cell()
            yield visit.wait_for_outcome(cell), visit.discovery
        visit.wait_for_end()

    def start_visit(
        self,
        prepared: PreparedCommit,
        cells: Sequence[Cell],
        caches: Path | None,
        profiles: ProfileRequest | None = None,
        concurrent_visits: int = 1,
        core: int = 0,
    ) -> WorkerVisit:
        """Import the commit and the suite; each of the cells then waits for its start.

        ``concurrent_visits`` is how many commits are visited at once; single-threaded cells then take turns
        on ``core``.
        """
        settings = self._settings
        request = {
            "paths": list(prepared.paths),
            "own_paths": [str(prepared.tree), *prepared.paths],
            "modules": [name for name in prepared.modules if name != settings.suite.name],
            "suite": str(settings.suite.folder),
            "cells": [_cell_message(cell, caches, prepared.commit.sha, profiles) for cell in cells],
            "scratch": str(self._scratch),
            "variables": dict(settings.variables),
            "launch": settings.launch,
            "core": core,
            "visit_timeout_s": IMPORT_TIMEOUT_S
            + concurrent_visits * sum(c.timeout_s + c.setup_cache_timeout_s for c in cells),
        }
        self.connection.sendall(json.dumps(request).encode() + b"\n")
        first = self.read_message()
        if first["event"] == "suite":
            errors = tuple((error["module"], error["error"]) for error in first["errors"])
            benchmarks = parse_benchmarks(first["benchmarks"])
            return WorkerVisit(self, Discovery(benchmarks, errors, parse_omissions(first["omissions"])))
        end = "did not end" if first.get("timed_out") else "crashed"
        reason = f"importing the suite {end} (status {first.get('status')})"
        return WorkerVisit(self, Discovery({}, ((settings.suite.name, reason),)), ended_reason=reason)

    @property
    def has_message(self) -> bool:
        """Whether a received message waits to be read."""
        return self._reader.has_message

    def read_message(self) -> dict[str, Any]:
        """Read the next message of the worker; raise ``PerfciError`` where it has ended."""
        message = self._reader.read_message()
        if message is None:
            raise PerfciError(self._settings.exit_reason())
        return message


class WorkerVisit:
    """One commit that a worker has imported; its cells run one after another, each when started."""

    def __init__(self, worker: MeasurementWorkerClient, discovery: Discovery, ended_reason: str = "") -> None:
        self.worker = worker
        self.discovery = discovery
        self.ended_reason = ended_reason
        """Why nothing more can be measured in this visit."""

    def start_next_cell(self, turn_socket: socket.socket | None = None) -> None:
        """Start the next cell; with ``turn_socket`` it runs only on its turns, and hangs up at its end."""
        if not self.ended_reason:
            socket.send_fds(self.worker.connection, [b"\n"], [turn_socket.fileno()] if turn_socket else [])

    def wait_for_outcome(self, cell: Cell) -> CellOutcome:
        """Wait until the cell that was started has ended."""
        if not self.ended_reason:
            message = self.worker.read_message()
            if message["event"] == "cell":
                return parse_outcome(cell, message)
            self.ended_reason = (
                f"the process that supervised this cell ended (status {message.get('status')})"
            )
        return build_failed_outcome(cell, self.ended_reason)

    def wait_for_end(self) -> None:
        """Wait for the end of the visit."""
        if not self.ended_reason:
            self.worker.read_message()


def run_interleaved_cells(
    visits: Sequence[WorkerVisit], rows: Sequence[Sequence[Cell]]
) -> Iterator[Sequence[CellResult]]:
    """Run the cells of each row in turns, one per visit; yield the outcomes of a row together."""
    for row in rows:
        running = visits[: len(row)]
        _run_turns(running)
        yield [
            (visit.wait_for_outcome(cell), visit.discovery) for visit, cell in zip(running, row, strict=True)
        ]
    for visit in visits:
        visit.wait_for_end()


def _run_turns(visits: Sequence[WorkerVisit]) -> None:
    """Start the next cell of every visit and schedule the turns until all have ended."""
    with ExitStack() as sockets:
        participants = []
        for visit in visits:
            connection, cell_socket = socket.socketpair()
            participants.append(sockets.enter_context(connection))
            # Our copy of the cell's end is closed once it was sent: the cell's end shows as a hang-up.
            with cell_socket:
                visit.start_next_cell(cell_socket)
        scheduler = TurnScheduler(participants)
        running = {visit.worker.connection: visit.worker for visit in visits if not visit.ended_reason}
        # A message that was read along with an earlier one would not make select return.
        while running := {conn: worker for conn, worker in running.items() if not worker.has_message}:
            ready, _, _ = select.select([*scheduler.live_participants, *running], [], [])
            for connection in ready:
                if connection in running:
                    del running[connection]
                else:
                    scheduler.handle_message_and_grant_turn(connection)


def _cell_message(
    cell: Cell, caches: Path | None, sha: str, profiles: ProfileRequest | None
) -> dict[str, Any]:
    cache = ""
    if cell.setup_cache_key is not None and caches is not None:
        cache = str(caches / sha / cell.setup_cache_key.replace(os.sep, "_"))
    return {
        "benchmark": cell.benchmark,
        "param_idx": cell.param_idx,
        "timeout_s": cell.timeout_s,
        "cache_dir": cache,
        "setup_cache_timeout_s": cell.setup_cache_timeout_s,
        "profile": profiles
        and {
            "folder": profiles.folders.get(cell.name, ""),
            "roots": dict(profiles.roots),
            "sampled_cpu_s": profiles.sampled_cpu_s,
        },
    }
