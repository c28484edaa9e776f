"""The demo's measurement, beyond what is measured."""

from __future__ import annotations

import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

import perfci.demo.measure_sample_repository as measure_sample_repository_module
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.config import load_config
from perfci.demo.measure_sample_repository import (
    AA_RUNS,
    load_sample_config,
    measure_sample_repository,
)
from perfci.history.series_histories import update_change_points
from perfci.model import VerdictKind
from perfci.runner.git_repository import GitRepository
from perfci.store import open_store
from perfci.store.incidents.incident_lists import list_incidents
from perfci.store.incidents.incident_store import find_last_evaluation
from perfci.store.projects import find_project
from perfci.store.verdicts_and_change_points import add_verdicts
from perfci.store.writes.find_or_add_rows import ensure_project_id, ensure_series_id
from perfci.store.writes.measured_sessions import find_or_add_run, finish_session, start_session
from perfci.verdicts.judging_policy import Policy
from perfci_web import create_app
from tests.support.builders import (
    NOON,
    PROJECT,
    a_commit,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_verdict,
)
from tests.support.git_project import GitProject

TAB_CONTENTS = {
    "": "1 incident is open",
    "incidents/1": "#1",
    "incidents": "/acme:model/incidents/1",
    "changes?since=all": "1 change so far: 1 worse.",
    "benchmarks": "train",
    "noise": "3 A/A runs",
    "orders": "<code>perfci work</code> in a clone",
    "env": "No recorded change of the environment since",
}
"""Address of a tab -> what it says of the demo."""


def add_aa_runs(tx: Session) -> None:
    """Three comparisons of the newest commit with itself, which the demo measures after the history."""
    for number in range(AA_RUNS):
        uid, level = f"aa-{number}", 1.3
        start_session(tx, PROJECT, uid, "aa", "spec", 7, 0, NOON)
        verdict = a_verdict(
            kind=VerdictKind.UNCHANGED, base=a_sha(24), head=a_sha(24), ratio=level / (level + number / 100)
        )
        add_verdicts(tx, PROJECT, uid, [verdict], NOON)
        finish_session(tx, uid, NOON)


def test_evaluates_the_history_that_an_earlier_demo_measured(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    config = load_config(tmp_path, {}, db=f"sqlite:///{tmp_path}/perfci.db", project=PROJECT)
    with closing(open_store(config.database_url, create=True)) as store:
        with store.begin() as tx:
            start_session(tx, PROJECT, "history", "history", "spec", 7, 5, NOON)
            finish_session(tx, "history", NOON)
            add_aa_runs(tx)

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
            add_aa_runs(tx)

        measure_sample_repository(GitRepository(tmp_path), config, TerminalProgress())

        with store.read() as tx:
            incidents = list_incidents(tx, find_project(tx, PROJECT).id)
        client = create_app(store).test_client()
        pages = {tab: client.get(f"/acme:model/{tab}").get_data(as_text=True) for tab in TAB_CONTENTS}
    assert [(incident.number, incident.commit) for incident in incidents] == [(1, a_sha(13))]
    assert {tab for tab, content in TAB_CONTENTS.items() if content not in pages[tab]} == set()


def test_compares_the_newest_commit_with_itself_after_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = GitProject(tmp_path)
    project.commit("First", thing="LEVEL = 1\n")
    newest = project.commit("Second", thing="LEVEL = 2\n", benchmarks__suite="def track_level(): return 1\n")
    config = load_config(tmp_path, {}, db=f"sqlite:///{tmp_path}/perfci.db", project=PROJECT)
    compared: list[tuple[str, str]] = []
    monkeypatch.setattr(
        measure_sample_repository_module,
        "measure_commit_comparison",
        lambda store, runner, config, scope, base, head, progress, **_: compared.append((base.sha, head.sha)),
    )
    with closing(open_store(config.database_url, create=True)) as store, store.begin() as tx:
        start_session(tx, PROJECT, "history", "history", "spec", 7, 5, NOON)
        finish_session(tx, "history", NOON)

    assert measure_sample_repository(GitRepository(tmp_path), config, TerminalProgress())

    assert compared == [(newest, newest)] * AA_RUNS


def test_takes_the_machine_lock_of_the_user_and_not_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCI_LOCK", str(tmp_path / "mine.lock"))
    monkeypatch.setenv("PERFCI_DB", str(tmp_path / "mine.db"))

    config = load_sample_config(GitRepository(GitProject(tmp_path / "sample").folder))

    assert config.lock_path == tmp_path / "mine.lock"
    assert config.database_url == f"sqlite:///{tmp_path}/sample/.perfci/perfci.db"
