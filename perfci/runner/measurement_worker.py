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
from perfci.runner.cell_outcomes import Discovery, Outcome, lost, read_omissions, read_outcome
from perfci.runner.frozen_suite import Cell, Suite, read_discovered
from perfci.runner.prepare_commit import Prepared
from perfci.runner.turn_scheduler import TurnKeeper
from perfci.runner.worker_connection import Lines, hang_up

IMPORT_TIMEOUT_S = 600.0  # for importing torch, and for importing a commit with its suite

Measured = tuple[Outcome, Discovery]


@dataclass(frozen=True, slots=True)
class Profiles:
    """Cells are to be profiled: the folder of each by its name, none for mere ranges; ``roots`` as lines_of takes."""

    folders: Mapping[str, str]
    roots: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class About:
    """What a desk is to know of the environment it is in."""

    suite: Suite
    launch: str
    variables: Mapping[str, str]
    why_ended: Callable[[], str]


class Desk:
    """A process that visits one commit at a time; commits that are measured beside each other have a desk each."""

    def __init__(self, connection: socket.socket, about: About, scratch: Path) -> None:
        self.connection = connection
        self._about = about
        self._scratch = scratch
        self._lines = Lines(connection)
        self._visits = 0
        scratch.mkdir()

    def close(self) -> None:
        """Hang up: the desk kills whatever it is supervising and ends."""
        hang_up(self.connection)

    def discover(self, prepared: Prepared) -> Discovery:
        stay = self.begin(prepared, [], None)
        stay.finish()
        return stay.discovery

    def measure(
        self, prepared: Prepared, cells: Sequence[Cell], caches: Path, profiles: Profiles | None = None
    ) -> Iterator[Measured]:
        """Run each cell once in a fresh process, yielding every outcome as soon as it is there.

        Where ``profiles`` are asked for, the cells are profiled instead, and give no samples.
        """
        stay = self.begin(prepared, cells, caches, profiles)
        for cell in cells:
            stay.start()
            yield stay.outcome(cell), stay.discovery
        stay.finish()

    def begin(
        self, prepared: Prepared, cells: Sequence[Cell], caches: Path | None, profiles: Profiles | None = None,
        abreast: int = 1, core: int = 0,
    ) -> Stay:  # fmt: skip
        """Import the commit and the suite; each of the cells then waits for its start.

        ``abreast`` is how many commits are visited at once; what can be measured on one core then takes turns on
        ``core``.
        """
        self._visits += 1
        about = self._about
        request = {
            "visit": self._visits,
            "paths": list(prepared.paths),
            "own": [str(prepared.tree), *prepared.paths],
            "modules": [name for name in prepared.modules if name != about.suite.name],
            "suite": str(about.suite.folder),
            "cells": [_cell_message(cell, caches, prepared.commit.sha, profiles) for cell in cells],
            "scratch": str(self._scratch),
            "env": dict(about.variables),
            "launch": about.launch,
            "core": core,
            "visit_timeout_s": IMPORT_TIMEOUT_S + abreast * sum(c.timeout_s + c.setup_cache_timeout_s for c in cells),
        }
        self.connection.sendall(json.dumps(request).encode() + b"\n")
        first = self.next()
        if first["event"] == "suite":
            errors = tuple((error["module"], error["error"]) for error in first["errors"])
            found = Discovery(read_discovered(first["benchmarks"]), errors, read_omissions(first["notes"]))
            return Stay(self, found)
        reason = "importing the suite did not end" if first.get("timed_out") else "importing the suite crashed"
        reason = f"{reason} (status {first.get('status')})"
        return Stay(self, Discovery({}, ((about.suite.name, reason),)), ended=reason)

    @property
    def has_said_more(self) -> bool:
        """Whether a message was received that nobody has asked for yet."""
        return self._lines.holds_one

    def next(self) -> dict[str, Any]:
        message = self._lines.next()
        if message is None:
            raise PerfciError(self._about.why_ended())
        return message


class Stay:
    """One commit that a desk has imported, and whose cells run one after another as they are told to."""

    def __init__(self, desk: Desk, discovery: Discovery, ended: str = "") -> None:
        self.desk = desk
        self.discovery = discovery
        self.ended = ended
        """Why nothing more can be measured in this visit."""

    def start(self, turns: socket.socket | None = None) -> None:
        """Let the next cell run; with ``turns`` it runs only when that socket says so, and hangs up when it ends."""
        if not self.ended:
            socket.send_fds(self.desk.connection, [b"\n"], [turns.fileno()] if turns else [])

    def outcome(self, cell: Cell) -> Outcome:
        """Wait until the cell that was started has ended."""
        if not self.ended:
            message = self.desk.next()
            if message["event"] == "cell":
                return read_outcome(cell, message)
            self.ended = f"the process that supervised this cell ended (status {message.get('status')})"
        return lost(cell, self.ended)

    def finish(self) -> None:
        if not self.ended:
            self.desk.next()


def beside(stays: Sequence[Stay], rows: Sequence[Sequence[Cell]]) -> Iterator[Sequence[Measured]]:
    """Run the cells of each row at once, one a stay, their processes taking turns; yield what they gave together."""
    for row in rows:
        running = stays[: len(row)]
        _take_turns(running)
        yield [(stay.outcome(cell), stay.discovery) for stay, cell in zip(running, row, strict=True)]
    for stay in stays:
        stay.finish()


def _take_turns(stays: Sequence[Stay]) -> None:
    """Start the next cell of every stay and keep the turns until all have ended."""
    with ExitStack() as sockets:
        players = [sockets.enter_context(_started(stay)) for stay in stays]
        keeper = TurnKeeper(players)
        running = {stay.desk.connection: stay.desk for stay in stays if not stay.ended}
        while running := {ours: desk for ours, desk in running.items() if not desk.has_said_more}:
            ready, _, _ = select.select([*keeper.players, *running], [], [])
            for one in ready:
                if one in running:
                    del running[one]
                else:
                    keeper.hear(one)


def _started(stay: Stay) -> socket.socket:
    ours, theirs = socket.socketpair()
    with theirs:
        stay.start(theirs)
    return ours


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
