"""Foreign files become runs: one module per format, chosen by content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, cast

from perfci.model import Benchmark, Commit, Direction, PerfciError, Result, Run

WarnCallback = Callable[[str], None]
"""Takes one sentence about something that was left out and why."""


@dataclass(frozen=True, slots=True)
class ImportDefaults:
    """What a file of another tool may not say, said by who reads it; what the file says itself counts more."""

    project: str
    commit: Commit | None = None
    machine: str = ""
    direction: Direction | None = None


@dataclass(frozen=True, slots=True)
class UnknownUnitResult:
    """A result whose unit or direction nobody knows: it is kept as it came, and judged when a person has said them.

    ``result`` is complete but for these two; ``found`` is what the file says of it.
    """

    metric: str
    result: Result
    source_fields: Mapping[str, Any]
    reason: str


class ImportedRun(NamedTuple):
    """A run as it was found: ``key`` is the same whenever it is sent, ``body_hash`` only while its content is.

    ``described`` are benchmarks met for the first time with their source code and settings, where a format has them.
    """

    run: Run
    idempotency_key: str
    body_hash: str
    benchmark_sources: Mapping[Benchmark, tuple[str, Mapping[str, Any]]] = MappingProxyType({})
    unresolved: tuple[UnknownUnitResult, ...] = ()


class FormatReader(Protocol):
    """What a module of this package offers to be read from.

    ``CHANGED`` says what a known key with another body means: a mistake, or a file that has grown. ``head`` is how the
    content of a file begins, and nothing for a folder.
    """

    ON_CHANGED_BODY: Literal["refuse", "add"]

    def can_read(self, path: Path, head: bytes) -> bool: ...

    def read_documents(
        self, path: Path, defaults: ImportDefaults, warn: WarnCallback
    ) -> Iterator[ImportedRun]: ...


class FormatWriter(Protocol):
    """What a module of this package offers to be written with: bytes to stream, and a sentence for each thing that
    the format cannot say."""

    def write(self, runs: Iterable[Run], warn: WarnCallback) -> Iterator[bytes]: ...


READER_MODULES = {
    "asv": "perfci.formats.asv.asv_reader",
    "perfci": "perfci.formats.run_document",
    "pytest-benchmark": "perfci.formats.pytest_benchmark",
    "pytorch": "perfci.formats.pytorch.pytorch_reader",
    "vllm": "perfci.formats.vllm",
    "hyperfine": "perfci.formats.hyperfine",
    "google-benchmark": "perfci.formats.google_benchmark",
    "optimum-benchmark": "perfci.formats.optimum_benchmark",
    "nvbench": "perfci.formats.nvbench",
    "generic": "perfci.formats.generic_json",
    "csv": "perfci.formats.csv_reader",
}
"""Every format that can be read and its module, loaded only when asked for. No two of them claim the same file."""

WRITER_MODULES = {
    "perfci": "perfci.formats.run_lines",
    "asv": "perfci.formats.asv.asv_writer",
    "pytorch": "perfci.formats.pytorch.perfci_records",
}
"""Every format that can be written from runs, likewise."""

HEAD_BYTES = 65_536
"""How much of a file is looked at first: every format shows what it is within that, but for odd orders of keys."""


def get_reader(name: str) -> FormatReader:
    if name not in READER_MODULES:
        raise PerfciError(f"There is no format {name}: expected auto or one of {', '.join(READER_MODULES)}.")
    return cast(FormatReader, import_module(READER_MODULES[name]))


def get_writer(name: str) -> FormatWriter:
    if name not in WRITER_MODULES:
        raise PerfciError(f"Nothing is written as {name}: expected one of {', '.join(WRITER_MODULES)}.")
    return cast(FormatWriter, import_module(WRITER_MODULES[name]))


def detect_format(path: Path) -> str:
    """Name the format of a file or folder by its content, whatever it is called.

    The head of a file decides; only where it does not is the whole read, once.
    """
    from perfci.formats.input_files import read_bytes, read_head
    from perfci.formats.refused import refuse_executable_formats

    if not path.exists():
        raise PerfciError(f"There is no file or folder {path}.")
    head = read_head(path, HEAD_BYTES) if path.is_file() else b""
    refuse_executable_formats(path, head)
    found = _match_reader(path, head)
    if found is None and len(head) == HEAD_BYTES:
        found = _match_reader(path, read_bytes(path))
    if found is None:
        raise PerfciError(
            f"{path} holds no results that perfci knows: expected one of {', '.join(READER_MODULES)}."
        )
    return found


def read_documents(
    path: Path, format_name: str, defaults: ImportDefaults, warn: WarnCallback
) -> Iterator[ImportedRun]:
    """Read runs one after the other, each with the keys that make it arrive once."""
    if not path.exists():
        raise PerfciError(f"There is no file or folder {path}.")
    return get_reader(format_name).read_documents(path, defaults, warn)


def read_runs(
    path: Path, format_name: str, project: str, warn: WarnCallback = lambda _: None
) -> Iterator[Run]:
    """Read runs one after the other, telling ``warn`` what had to be left out."""
    return (document.run for document in read_documents(path, format_name, ImportDefaults(project), warn))


def _match_reader(path: Path, head: bytes) -> str | None:
    return next((name for name in READER_MODULES if get_reader(name).can_read(path, head)), None)
