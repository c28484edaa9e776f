"""Read result files of any tool and complete what they lack: for the store here, and for a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from perfci.formats.format_registry import detect_format, find_result_files, read_imported_runs
from perfci.formats.format_types import ImportDefaults, ImportedRun, WarnCallback
from perfci.model import Commit, PerfciError, Run


def find_files(path: Path, format_name: str, warn: WarnCallback) -> list[tuple[Path, str]]:
    """List the result files of a path, each with its format; ``auto`` detects it."""
    if not path.is_dir() or format_name == "asv":
        return [(path, detect_format(path) if format_name == "auto" else format_name)]
    files = find_result_files(path, warn)
    if format_name == "auto":
        return files
    chosen = [(file, name) for file, name in files if name == format_name]
    if not chosen:
        raise PerfciError(f"{path} holds no file of the format {format_name}.")
    return chosen


@dataclass(frozen=True, slots=True)
class FileReading:
    """How files are read: with which defaults, and in which repository.

    ``known_commits`` are the commits of the local repository by sha; they complete those that a file names.
    """

    defaults: ImportDefaults
    known_commits: Mapping[str, Commit] = field(default_factory=lambda: MappingProxyType({}))

    def read_file(self, path: Path, format_name: str, warn: WarnCallback) -> Iterator[ImportedRun]:
        """Yield the runs of one file, their commits completed."""
        for document in read_imported_runs(path, format_name, self.defaults, warn):
            yield document._replace(run=self._complete_commit(document.run))

    def _complete_commit(self, run: Run) -> Run:
        """Complete the commit of a run from git; without it the history is ordered by date."""
        commit = self.known_commits.get(run.commit.sha) or self._find_by_prefix(run.commit.sha)
        return run if commit is None else replace(run, commit=replace(commit, dirty=run.commit.dirty))

    def _find_by_prefix(self, sha: str) -> Commit | None:
        if len(sha) >= 40:
            return None
        commits = [commit for full, commit in self.known_commits.items() if full.startswith(sha)]
        return commits[0] if len(commits) == 1 else None
