"""Types that all formats share: a reader's output, a writer's input and their protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from perfci.formats.content_outline import ContentOutline
from perfci.model import Benchmark, Commit, Direction, NamedValues, Result, Run

WarnCallback = Callable[[str], None]
"""Takes one sentence about something that was skipped, and why."""


class WarnOnce:
    """A warning callback that drops repeated sentences."""

    def __init__(self, warn: WarnCallback) -> None:
        self._warn = warn
        self._warned: set[str] = set()

    def __call__(self, sentence: str) -> None:
        if sentence not in self._warned:
            self._warned.add(sentence)
            self._warn(sentence)


@dataclass(frozen=True, slots=True)
class ImportDefaults:
    """Defaults for fields that a file of another tool may lack; a value in the file takes precedence."""

    project: str
    commit: Commit | None = None
    machine: str = ""
    direction: Direction | None = None
    origin: NamedValues = ()
    """Where the file is read: the CI job, as ``run_id``, ``attempt``, ``job`` and ``event``."""


@dataclass(frozen=True, slots=True)
class UnknownUnitResult:
    """A result whose unit or direction is unknown: stored as it is, and judged once both have been declared.

    ``result`` is complete but for these two; ``source_fields`` are its fields in the file, ``unit_in_file``
    may be any text.
    """

    metric: str
    result: Result
    source_fields: Mapping[str, Any]
    reason: str
    unit_in_file: str = ""

    @property
    def benchmark(self) -> str:
        return self.result.series.benchmark.name


class ImportedRun(NamedTuple):
    """A run read from a file.

    ``idempotency_key`` is the same each time the run is sent, ``body_hash`` only while its content is
    unchanged. ``benchmark_sources`` holds source code and settings of benchmarks, where a format has them.
    """

    run: Run
    idempotency_key: str
    body_hash: str
    benchmark_sources: Mapping[Benchmark, tuple[str, Mapping[str, Any]]] = MappingProxyType({})
    unresolved: tuple[UnknownUnitResult, ...] = ()


class FormatReader(Protocol):
    """The functions of a module that reads a format.

    ``outline`` is that of the beginning of a file's content, empty for a folder.
    """

    def can_read(self, path: Path, outline: ContentOutline) -> bool:
        """Whether the file or folder is of this format."""
        ...

    def read_imported_runs(
        self, path: Path, defaults: ImportDefaults, warn: WarnCallback
    ) -> Iterator[ImportedRun]:
        """Yield the runs of a file or folder, and warn of each value that is skipped."""
        ...


class FormatWriter(Protocol):
    """The function of a module that writes a format; it warns of values that the format cannot express."""

    def serialize_runs(self, runs: Iterable[Run], warn: WarnCallback) -> Iterator[bytes]:
        """Yield the file in chunks of bytes."""
        ...
