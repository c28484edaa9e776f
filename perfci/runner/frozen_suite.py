"""Freeze a suite: copy it, so that edits during a session are not measured."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perfci.model import PerfciError

IGNORED_NAMES = {"__pycache__", ".asv", ".git", "env", "html", "results"}


@dataclass(frozen=True, slots=True)
class FrozenSuite:
    """A frozen copy of a suite's folder. ``digest`` is the hash of what is in it."""

    name: str
    folder: Path
    digest: str


def resolve_suite_folder(folder: Path) -> Path:
    """Accept the folder of the benchmarks, or one whose asv.conf.json names it."""
    if not folder.is_dir():
        raise PerfciError(
            f"there is no suite folder {folder}; make one with `perfci init`, or name yours with --suite"
        )
    if (folder / "asv.conf.json").exists() and (folder / "benchmarks").is_dir():
        return folder / "benchmarks"
    return folder


def freeze_suite(folder: Path, private_folder: Path) -> FrozenSuite:
    """Copy a suite to ``.perfci/suites/<hash>/<name>``; asv imports it under the folder's own name."""
    folder = folder.resolve()
    files = sorted(_list_files(folder))
    if not any(file.suffix == ".py" for file in files):
        raise PerfciError(f"the suite folder {folder} holds no Python file")
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(folder)}\0{len(content)}\0".encode() + content)
    name = digest.hexdigest()[:16]
    frozen = private_folder / "suites" / name / folder.name
    if not frozen.exists():
        partial = private_folder / "suites" / f"{name}.{os.getpid()}"
        shutil.rmtree(partial, ignore_errors=True)
        for file in files:
            target = partial / folder.name / file.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, target)
        package_file = partial / folder.name / "__init__.py"
        if not package_file.exists():  # asv walks packages: without this file it would see no module
            package_file.touch()
        frozen.parent.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.rename(frozen.parent)
        except OSError:  # another run froze the same suite first
            shutil.rmtree(partial, ignore_errors=True)
    return FrozenSuite(folder.name, frozen, name)


def _list_files(folder: Path) -> Iterator[Path]:
    for path, folders, names in os.walk(folder):
        # Assigned in place: os.walk descends into what is left of its own list.
        folders[:] = [name for name in folders if name not in IGNORED_NAMES]
        yield from (Path(path) / name for name in names if not name.endswith((".pyc", ".pyo")))
