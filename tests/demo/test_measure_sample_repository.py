"""The demo's measurement, beyond what is measured."""

from __future__ import annotations

import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.config import load_config
from perfci.demo.measure_sample_repository import load_sample_config, measure_sample_repository
from perfci.history.series_histories import update_change_points
from perfci.runner.git_repository import GitRepository
from perfci.store import open_store
from perfci.store.incidents.incident_lists import list_incidents
from perfci.store.incidents.incident_store import find_last_evaluation
from perfci.store.projects import find_project
from perfci.store.writes.find_or_add_rows import ensure_project_id, ensure_series_id
from perfci.store.writes.measured_sessions import find_or_add_run, finish_session, start_session
from perfci.verdicts.judging_policy import Policy
from perfci_web import create_app
from tests.support.builders import NOON, PROJECT, a_commit, a_process, a_result, a_run, a_series, a_sha
from tests.support.git_project import GitProject


def test_evaluates_the_history_that_an_earlier_demo_measured(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    config = load_config(tmp_path, {}, db=f"sqlite:///{tmp_path}/perfci.db", project=PROJECT)
    with closing(open_store(config.database_url, create=True)) as store:
        with store.begin() as tx:
            start_session(tx, PROJECT, "history", "history", "spec", 7, 5, NOON)
            finish_session(tx, "history", NOON)

        measured = measure_sample_repository(GitRepository(tmp_path), config, TerminalProgress())

        with store.read() as tx:
            project = find_project(tx, PROJECT)
            assert project is not None
            assert (measured, find_last_evaluation(tx, project.id) is not None) == (False, True)


def test_the_incidents_of_the_demo_are_numbered_and_open(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    config = load_config(tmp_path, {}, db=f"sqlite:///{tmp_path}/perfci.db", project=PROJECT)
    with closing(open_store(config.database_url, create=True)) as store:
        with store.begin() as tx:
            start_session(tx, PROJECT, "history", "history", "spec", 7, 5, NOON)
            for number in range(1, 25):
                level = (1.3 if number >= 13 else 1.0) * (1 + number % 3 / 1000)
                measured = a_result(None, a_process(level))
                find_or_add_run(tx, a_run(measured, commit=a_commit(number), session="history"))
            series_id = ensure_series_id(tx, ensure_project_id(tx, PROJECT), a_series())
            update_change_points(tx, PROJECT, [series_id], Policy())
            finish_session(tx, "history", NOON)

        measure_sample_repository(GitRepository(tmp_path), config, TerminalProgress())

        with store.read() as tx:
            incidents = list_incidents(tx, find_project(tx, PROJECT).id)
        page = create_app(store).test_client().get("/acme:model/incidents/1")
    assert [(incident.number, incident.commit) for incident in incidents] == [(1, a_sha(13))]
    assert page.status_code == 200


def test_takes_the_machine_lock_of_the_user_and_not_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCI_LOCK", str(tmp_path / "mine.lock"))
    monkeypatch.setenv("PERFCI_DB", str(tmp_path / "mine.db"))

    config = load_sample_config(GitRepository(GitProject(tmp_path / "sample").folder))

    assert config.lock_path == tmp_path / "mine.lock"
    assert config.database_url == f"sqlite:///{tmp_path}/sample/.perfci/perfci.db"
