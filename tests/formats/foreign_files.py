"""Real and documented files of other tools, and what reading them gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from perfci.formats.protocol import ImportDefaults, ImportedRun, WarnCallback
from perfci.formats.registry import read_documents
from perfci.model import Commit, Result, Run
from tests.support.builders import a_commit

FILES = Path(__file__).parent / "files"

PROJECT = "acme/model"


def read(
    path: Path, format_name: str, commit: Commit | None = None, **given: str
) -> tuple[ImportedRun, list[str]]:
    """The one run of a file, and what is said about the rest."""
    warnings: list[str] = []
    asked = ImportDefaults(PROJECT, commit or a_commit(), **given)  # type: ignore[arg-type]
    [document] = read_documents(path, format_name, asked, warnings.append)
    return document, warnings


def read_runs(
    path: Path, format_name: str, project: str, warn: WarnCallback = lambda _: None
) -> Iterator[Run]:
    """The runs of a file alone, without their keys."""
    return (document.run for document in read_documents(path, format_name, ImportDefaults(project), warn))


def named(document: ImportedRun) -> dict[str, Result]:
    """The results of a run by cell and metric."""
    return {one.series.label: one for one in document.run.results}
