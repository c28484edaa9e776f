"""Find the module of a format, by its name or by the content of a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import cast

from perfci.formats.bounded_files import read_decompressed, read_decompressed_head, refuse_executable_formats
from perfci.formats.content_outline import ContentOutline
from perfci.formats.format_types import FormatReader, FormatWriter, ImportDefaults, ImportedRun, WarnCallback
from perfci.model import PerfciError

READER_MODULES = {
    "asv": "perfci.formats.asv.asv_reader",
    "perfci": "perfci.formats.run_document",
    "pytest-benchmark": "perfci.formats.tools.pytest_benchmark",
    "pytorch": "perfci.formats.pytorch.pytorch_reader",
    "vllm": "perfci.formats.tools.vllm",
    "hyperfine": "perfci.formats.tools.hyperfine",
    "google-benchmark": "perfci.formats.tools.google_benchmark",
    "pyperf": "perfci.formats.tools.pyperf",
    "jmh": "perfci.formats.tools.jmh",
    "torchbench": "perfci.formats.tools.torchbench",
    "optimum-benchmark": "perfci.formats.tools.optimum_benchmark",
    "nvbench": "perfci.formats.tools.nvbench",
    "generic": "perfci.formats.tools.github_action_benchmark",
    "bencher": "perfci.formats.tools.bencher",
    "csv": "perfci.formats.csv_reader",
}
"""Every format that can be read and its module, imported on first use. No two of them claim the same file."""

WRITER_MODULES = {
    "perfci": "perfci.formats.run_document",
    "asv": "perfci.formats.asv.asv_writer",
    "pytorch": "perfci.formats.pytorch.pytorch_writer",
}
"""Every format that runs can be written in and its module, imported on first use."""

RESULT_SUFFIXES = tuple(
    kind + packed
    for kind in (".json", ".jsonl", ".ndjson", ".csv", ".tar")
    for packed in ("", ".gz", ".bz2", ".xz")
)
"""How the files of a folder end that may hold results."""

EMPTY_OUTLINE = ContentOutline(b"")

HEAD_BYTES = 65_536
"""Bytes that are read first: enough to detect every format, unless its keys are in an unusual order."""


def get_reader(name: str) -> FormatReader:
    """Import and return the module that reads a format."""
    if name not in READER_MODULES:
        raise PerfciError(f"There is no format {name}: expected auto or one of {', '.join(READER_MODULES)}.")
    return cast(FormatReader, import_module(READER_MODULES[name]))


def get_writer(name: str) -> FormatWriter:
    """Import and return the module that writes a format."""
    if name not in WRITER_MODULES:
        raise PerfciError(
            f"There is no writer for format {name}: expected one of {', '.join(WRITER_MODULES)}."
        )
    return cast(FormatWriter, import_module(WRITER_MODULES[name]))


def detect_format(path: Path) -> str:
    """Return the format of a file or folder by its content, reading more than the head only if needed."""
    if not path.exists():
        raise PerfciError(f"There is no file or folder {path}.")
    head = read_decompressed_head(path, HEAD_BYTES) if path.is_file() else b""
    refuse_executable_formats(path, head)
    # Where the head was the whole file, reading on finds nothing more.
    name = _match_reader(path, head)
    if name is None and len(head) == HEAD_BYTES:
        name = _match_reader(path, read_decompressed(path))
    if name is None:
        format_names = ", ".join(READER_MODULES)
        raise PerfciError(
            f"{path} holds no results in a format that perfci reads: expected one of {format_names}."
        )
    return name


def find_result_files(folder: Path, warn: WarnCallback) -> list[tuple[Path, str]]:
    """List the result files below a folder with their formats; a results folder of asv counts as one file.

    Links to folders and hidden folders, other than pytest-benchmark's, are not entered.
    """
    asv = get_reader("asv")
    if asv.can_read(folder, EMPTY_OUTLINE):
        return [(folder, "asv")]
    result_files: list[tuple[Path, str]] = []
    for place, folders, names in os.walk(folder):
        here = Path(place)
        asv_folders = [name for name in folders if asv.can_read(here / name, EMPTY_OUTLINE)]
        result_files += [(here / name, "asv") for name in asv_folders]
        folders[:] = sorted(
            name for name in folders if name not in asv_folders and (name[0] != "." or name == ".benchmarks")
        )
        for name in sorted(names):
            if name.lower().endswith(RESULT_SUFFIXES):
                try:
                    result_files.append((here / name, detect_format(here / name)))
                except PerfciError as error:
                    warn(f"Left out: {error}")
    if not result_files:
        raise PerfciError(f"{folder} holds no file with results in a format that perfci reads.")
    return sorted(result_files)


def read_imported_runs(
    path: Path, format_name: str, defaults: ImportDefaults, warn: WarnCallback
) -> Iterator[ImportedRun]:
    """Yield the runs of a file one by one, each with its idempotency key."""
    if not path.exists():
        raise PerfciError(f"There is no file or folder {path}.")
    return get_reader(format_name).read_imported_runs(path, defaults, warn)


def _match_reader(path: Path, head: bytes) -> str | None:
    outline = ContentOutline(head)
    return next((name for name in READER_MODULES if get_reader(name).can_read(path, outline)), None)
