from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perfci.config import RunTable, Settings
from perfci.runner.cell_outcomes import CellOutcome
from perfci.runner.git_repository import GitRepository
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.runner.suite_cells import expand_cells
from tests.support.git_project import GitProject


@pytest.fixture
def project(tmp_path: Path) -> GitProject:
    return GitProject(tmp_path / "project")


@contextmanager
def a_runner(
    project: GitProject, settings: Settings | None = None, **options: bool
) -> Iterator[MeasurementRunner]:
    repository = GitRepository(project.folder)
    with MeasurementRunner(
        repository, settings or Settings(), project.folder / "benchmarks", **options
    ) as runner:
        yield runner


def measured(project: GitProject, *, launch: str = "fork", timeout_s: float = 10) -> dict[str, CellOutcome]:
    """Measure every cell of the suite once at HEAD."""
    settings = Settings(run=RunTable.model_validate({"launch": launch}))
    with a_runner(project, settings) as runner:
        commit = runner.repository.list_commit_or_range("HEAD")[0]
        runner.prepare_commits([commit])
        cells = expand_cells(runner.discover_suite(commit.sha).benchmarks.values(), "", timeout_s)
        return {outcome.cell.name: outcome for outcome, _ in runner.visit_commit(commit.sha, cells)}
