"""Read the stored example files of other tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from perfci.formats.format_registry import read_imported_runs
from perfci.formats.format_types import ImportDefaults, ImportedRun, WarnCallback
from perfci.model import Commit, Result, Run
from tests.support.builders import a_commit

FILES = Path(__file__).parent / "files"

PROJECT = "acme/model"


def read(
    path: Path, format_name: str, commit: Commit | None = None, **default_fields: str
) -> tuple[ImportedRun, list[str]]:
    """Read the one run of a file, and the warnings."""
    warnings: list[str] = []
    defaults = ImportDefaults(PROJECT, commit or a_commit(), **default_fields)  # type: ignore[arg-type]
    [document] = read_imported_runs(path, format_name, defaults, warnings.append)
    return document, warnings


def read_runs(
    path: Path, format_name: str, project: str, warn: WarnCallback = lambda _: None
) -> Iterator[Run]:
    """Yield the runs of a file without their keys."""
    return (document.run for document in read_imported_runs(path, format_name, ImportDefaults(project), warn))


def named(document: ImportedRun) -> dict[str, Result]:
    """Return the results of a run by their label."""
    return {result.series.label: result for result in document.run.results}
