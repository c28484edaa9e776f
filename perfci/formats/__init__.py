"""Foreign files become runs: one module per format, chosen by content."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, cast

from perfci.model import Benchmark, PerfciError, Run

Warn = Callable[[str], None]
"""Takes one sentence about something that was left out and why."""


class Document(NamedTuple):
    """A run as it was found: ``key`` is the same whenever it is sent, ``body_hash`` only while its content is.

    ``described`` are benchmarks met for the first time with their source code and settings, where a format has them.
    """

    run: Run
    key: str
    body_hash: str
    described: Mapping[Benchmark, tuple[str, Mapping[str, Any]]] = MappingProxyType({})


class Format(Protocol):
    """What a module of this package offers to be read from.

    ``CHANGED`` says what a known key with another body means: a mistake, or a file that has grown.
    """

    CHANGED: Literal["refuse", "add"]

    def recognises(self, path: Path) -> bool: ...

    def documents(self, path: Path, project: str, warn: Warn) -> Iterator[Document]: ...


FORMATS = {"asv": "perfci.formats.asv", "perfci": "perfci.formats.run_document"}
"""Every format that can be read and its module, loaded only when asked for. The cheapest to recognise comes first."""


def format_named(name: str) -> Format:
    if name not in FORMATS:
        raise PerfciError(f"There is no format {name}: expected auto or one of {', '.join(FORMATS)}.")
    return cast(Format, import_module(FORMATS[name]))


def detect_format(path: Path) -> str:
    """Name the format of a file or folder by its content, whatever it is called."""
    if not path.exists():
        raise PerfciError(f"There is no file or folder {path}.")
    for name in FORMATS:
        if format_named(name).recognises(path):
            return name
    raise PerfciError(f"{path} holds no results that perfci knows: expected one of {', '.join(FORMATS)}.")


def read_documents(path: Path, format_name: str, project: str, warn: Warn) -> Iterator[Document]:
    """Read runs one after the other, each with the keys that make it arrive once."""
    if not path.exists():
        raise PerfciError(f"There is no file or folder {path}.")
    return format_named(format_name).documents(path, project, warn)


def read_runs(path: Path, format_name: str, project: str, warn: Warn = lambda _: None) -> Iterator[Run]:
    """Read runs one after the other, telling ``warn`` what had to be left out."""
    return (document.run for document in read_documents(path, format_name, project, warn))
