"""Desks: where one commit after another is visited, and where several are measured beside each other."""

from __future__ import annotations

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
from perfci.runner.frozen_suite import Cell, FrozenSuite, parse_benchmarks
from perfci.runner.prepare_commit import PreparedCommit
from perfci.runner.turn_scheduler import TurnScheduler
from perfci.runner.worker_connection import JsonLineReader, close_connection

IMPORT_TIMEOUT_S = 600.0  # for importing torch, and for importing a commit with its suite

CellResult = tuple[CellOutcome, Discovery]


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """Cells are to be profiled: the folder of each by its name, none for mere ranges; ``roots`` as lines_of takes."""

    folders: Mapping[str, str]
    roots: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a desk is to know of the environment it is in."""

    suite: FrozenSuite
    launch: str
    variables: Mapping[str, str]
    exit_reason: Callable[[], str]


class MeasurementWorker:
    """A process that visits one commit at a time; commits that are measured beside each other have a desk each."""

    def __init__(self, connection: socket.socket, settings: WorkerSettings, scratch: Path) -> None:
        self.connection = connection
        self._settings = settings
        self._scratch = scratch
        self._reader = JsonLineReader(connection)
        self._visits = 0
        scratch.mkdir()

    def close(self) -> None:
        """Hang up: the desk kills whatever it is supervising and ends."""
        close_connection(self.connection)

    def discover(self, prepared: PreparedCommit) -> Discovery:
        stay = self.start_session(prepared, [], None)
        stay.finish()
        return stay.discovery

    def measure(
        self,
        prepared: PreparedCommit,
        cells: Sequence[Cell],
        caches: Path,
        profiles: ProfileRequest | None = None,
    ) -> Iterator[CellResult]:
        """Run each cell once in a fresh process, yielding every outcome as soon as it is there.

        Where ``profiles`` are asked for, the cells are profiled instead, and give no samples.
        """
        stay = self.start_session(prepared, cells, caches, profiles)
        for cell in cells:
            stay.start_next_cell()
            yield stay.wait_for_outcome(cell), stay.discovery
        stay.finish()

    def start_session(
        self,
        prepared: PreparedCommit,
        cells: Sequence[Cell],
        caches: Path | None,
        profiles: ProfileRequest | None = None,
        concurrent_visits: int = 1,
        core: int = 0,
    ) -> WorkerSession:
        """Import the commit and the suite; each of the cells then waits for its start.

        ``abreast`` is how many commits are visited at once; what can be measured on one core then takes turns on
        ``core``.
        """
        self._visits += 1
        about = self._settings
        request = {
            "visit": self._visits,
            "paths": list(prepared.paths),
            "own_paths": [str(prepared.tree), *prepared.paths],
            "modules": [name for name in prepared.modules if name != about.suite.name],
            "suite": str(about.suite.folder),
            "cells": [_cell_message(cell, caches, prepared.commit.sha, profiles) for cell in cells],
            "scratch": str(self._scratch),
            "variables": dict(about.variables),
            "launch": about.launch,
            "core": core,
            "visit_timeout_s": IMPORT_TIMEOUT_S
            + concurrent_visits * sum(c.timeout_s + c.setup_cache_timeout_s for c in cells),
        }
        self.connection.sendall(json.dumps(request).encode() + b"\n")
        first = self.read_message()
        if first["event"] == "suite":
            errors = tuple((error["module"], error["error"]) for error in first["errors"])
            found = Discovery(
                parse_benchmarks(first["benchmarks"]), errors, parse_omissions(first["omissions"])
            )
            return WorkerSession(self, found)
        reason = (
            "importing the suite did not end" if first.get("timed_out") else "importing the suite crashed"
        )
        reason = f"{reason} (status {first.get('status')})"
        return WorkerSession(self, Discovery({}, ((about.suite.name, reason),)), ended_reason=reason)

    @property
    def has_message(self) -> bool:
        """Whether a message was received that nobody has asked for yet."""
        return self._reader.has_message

    def read_message(self) -> dict[str, Any]:
        message = self._reader.read_message()
        if message is None:
            raise PerfciError(self._settings.exit_reason())
        return message


class WorkerSession:
    """One commit that a desk has imported, and whose cells run one after another as they are told to."""

    def __init__(self, worker: MeasurementWorker, discovery: Discovery, ended_reason: str = "") -> None:
        self.worker = worker
        self.discovery = discovery
        self.ended_reason = ended_reason
        """Why nothing more can be measured in this visit."""

    def start_next_cell(self, turn_socket: socket.socket | None = None) -> None:
        """Let the next cell run; with ``turns`` it runs only when that socket says so, and hangs up when it ends."""
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

    def finish(self) -> None:
        if not self.ended_reason:
            self.worker.read_message()


def run_interleaved(
    sessions: Sequence[WorkerSession], rows: Sequence[Sequence[Cell]]
) -> Iterator[Sequence[CellResult]]:
    """Run the cells of each row at once, one a stay, their processes taking turns; yield what they gave together."""
    for row in rows:
        running = sessions[: len(row)]
        _run_turns(running)
        yield [(stay.wait_for_outcome(cell), stay.discovery) for stay, cell in zip(running, row, strict=True)]
    for stay in sessions:
        stay.finish()


def _run_turns(sessions: Sequence[WorkerSession]) -> None:
    """Start the next cell of every stay and keep the turns until all have ended."""
    with ExitStack() as sockets:
        players = [sockets.enter_context(_start_next_cell(stay)) for stay in sessions]
        keeper = TurnScheduler(players)
        running = {stay.worker.connection: stay.worker for stay in sessions if not stay.ended_reason}
        while running := {ours: desk for ours, desk in running.items() if not desk.has_message}:
            ready, _, _ = select.select([*keeper.participants, *running], [], [])
            for one in ready:
                if one in running:
                    del running[one]
                else:
                    keeper.handle_message(one)


def _start_next_cell(session: WorkerSession) -> socket.socket:
    ours, theirs = socket.socketpair()
    with theirs:
        session.start_next_cell(theirs)
    return ours


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
        and {"folder": profiles.folders.get(cell.name, ""), "roots": dict(profiles.roots)},
    }
