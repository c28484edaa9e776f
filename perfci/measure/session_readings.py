"""What a measuring session has measured so far: its processes, by commit, cell, series and stored row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from perfci.model import Measured, Process, Series
from perfci.runner.frozen_suite import Cell


@dataclass(slots=True)
class SessionReadings:
    """The stored processes of one session, each under its row id.

    One process counts once for each metric it gave.
    """

    processes_by_sha: dict[str, list[Measured]] = field(default_factory=dict)
    processes_by_id: dict[int, Process] = field(default_factory=dict)
    _row_ids: dict[tuple[str, Series], list[int]] = field(default_factory=dict)  # by sha and series
    _processes_by_cell: dict[tuple[str, str], list[Measured]] = field(
        default_factory=dict
    )  # by sha and cell name

    def __len__(self) -> int:
        return len(self.processes_by_id)

    def add(self, sha: str, row_id: int, series: Series, process: Process) -> None:
        """Index one stored process."""
        self.processes_by_sha.setdefault(sha, []).append((series, process))
        self._processes_by_cell.setdefault((sha, series.cell), []).append((series, process))
        self._row_ids.setdefault((sha, series), []).append(row_id)
        self.processes_by_id[row_id] = process

    def get_commit_processes(self, sha: str) -> Sequence[Measured]:
        """All processes of one commit, in the order they were stored."""
        return self.processes_by_sha.get(sha, ())

    def get_cell_processes(self, sha: str, cell: Cell) -> Sequence[Measured]:
        """The processes of one cell at one commit."""
        return self._processes_by_cell.get((sha, cell.name), ())

    def get_row_ids(self, sha: str, series: Series) -> Sequence[int]:
        """The rows of one series at one commit."""
        return self._row_ids.get((sha, series), ())

    def list_processes(self) -> Iterator[Process]:
        """Every process of the session, commit by commit."""
        return (process for rows in self.processes_by_sha.values() for _, process in rows)
