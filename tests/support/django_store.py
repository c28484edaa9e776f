"""The measurements of Django that asv published, imported with their change points and incidents.

They are real: long names, nine places, failures, no subjects, ten years. Their files
(``../shared/data/asv-django``, MIT licence) are not part of this repository.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perfci.config import Settings
from perfci.history.series_histories import update_change_points
from perfci.project_policies import build_policy
from perfci.service.incidents.evaluate_project import evaluate_project
from perfci.service.incidents.reconcile_incidents import reconcile_incidents
from perfci.service.uploads.import_files import import_file_or_folder
from perfci.store import Store, open_store
from perfci.store.projects import find_project
from perfci.store.queries.series_commits_machines import load_project_series

ARCHIVE = Path(__file__).parents[3] / "shared" / "data" / "asv-django" / "results.tar.xz"
PROJECT = "django"
NOW = datetime(2026, 8, 24, 12, tzinfo=UTC)
"""Four days after the last of its commits."""

SAMPLED_FOLDERS = ("macos-12", "windows-2022")
"""Machines of which a sample has every commit."""

SAMPLED_ENVIRONMENTS = ("conda-py3.12", "conda-py3.13")
SAMPLED_COMMITS = 40
"""Of the largest machine a sample has the newest commits of these environments."""

needs_django = pytest.mark.skipif(
    not ARCHIVE.exists(), reason="the asv results of Django (../shared) are not at hand"
)


def extract_sample(folder: Path) -> Path:
    """Extract few results in five places, with the newest steps of Django."""
    with tarfile.open(ARCHIVE) as archive:
        newest: dict[str, list[tuple[int, tarfile.TarInfo, bytes]]] = {}
        for member in archive:
            stream = archive.extractfile(member)
            if stream is None:
                continue
            content = stream.read()
            path = Path(member.name)
            environment = re.sub(r"^[0-9a-f]{8}-|\.json$", "", path.name)
            if path.parent.name == "ubuntu-latest" and environment in SAMPLED_ENVIRONMENTS:
                newest.setdefault(environment, []).append((_read_date(content), member, content))
            elif path.parent.name in SAMPLED_FOLDERS or not re.match(r"[0-9a-f]{8}-", path.name):
                _write(folder / path, content)
    for dated in newest.values():
        for _, member, content in sorted(dated, key=lambda item: item[0])[-SAMPLED_COMMITS:]:
            _write(folder / member.name, content)
    return folder / "results"


def extract_all(folder: Path) -> Path:
    """Extract every result."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "results"


@contextmanager
def open_django_store(folder: Path, results: Path) -> Iterator[Store]:
    """Import results as ``perfci ingest`` does, and derive change points and incidents."""
    store = open_store(f"sqlite:///{folder}/django.db", create=True)
    settings = Settings()
    policy = build_policy(settings)
    import_file_or_folder(store, results, "auto", PROJECT)
    with store.begin() as tx:
        update_change_points(tx, PROJECT, load_project_series(tx, PROJECT), policy)
    with store.read() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        evaluation = evaluate_project(tx, PROJECT, policy, settings.history)
    reconcile_incidents(store, project, policy, evaluation, NOW)
    yield store
    store.close()


def _read_date(content: bytes) -> int:
    matched = re.search(rb'"date": ?(\d+)', content)
    assert matched is not None
    return int(matched[1])


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
