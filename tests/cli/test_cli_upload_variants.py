"""Variants, ablations and goals that were judged elsewhere reach a server with the runs they rest on."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from perfci.cli import run_cli
from perfci.formats import run_document
from perfci.model import GoalRecord, VariantComparisonRecord
from perfci.store import Store, open_store
from perfci.store.projects import load_projects
from perfci.store.queries.comparisons.variant_comparisons import load_goals, load_variant_comparisons
from perfci.store.queries.measured_samples import load_runs
from tests.support.git_project import GitProject
from tests.support.switchable_connection import SwitchableConnection

SERVER = "http://localhost:8787"

SUITE = """
    import thing

    class Gpt:
        params = (["sdpa", "flash", "math"], [1])
        param_names = ["attn", "batch"]

        def track_step(self, attn, batch):
            return {"sdpa": 800, "flash": 600, "math": 900}[attn] + thing.MORE
        track_step.unit, track_step.metric, track_step.clock = "seconds", "step_time", "exact"

        def track_loss(self, attn, batch):
            return {"sdpa": 2.2, "flash": 2.200001, "math": 2.3}[attn]
        track_loss.unit, track_loss.metric, track_loss.clock = "loss", "loss_at_step_k", "exact"
"""

SETTINGS = """
    [[goal]]
    name = "fast"
    match = "track_step"
    require = ["step_time <= 0.8x"]

    [[ablation]]
    name = "attention"
    match = "track_step"
    steps = [
        { name = "baseline", set = { attn = "sdpa" } },
        { name = "+math", set = { attn = "math" } },
        { name = "+flash", set = { attn = "flash" } },
    ]
"""

Judged = tuple[list[VariantComparisonRecord], list[GoalRecord]]


@dataclass(frozen=True)
class Measured:
    """The project that measured, what it stored, and the files it left for an upload."""

    folder: Path
    judged: Judged
    files: list[Path]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("measured")
        patch.chdir(folder)
        project = GitProject(folder)
        project.commit("First", thing="MORE = 0\n", benchmarks__suite=SUITE)
        project.write("perfci.toml", SETTINGS)
        project.commit("Second", thing="MORE = -200\n")
        files = ["--results", "results"]
        run_cli(["compare", "--vary", "attn=sdpa,flash,math", "--at", "HEAD", *files])
        run_cli(["compare", "--ablation", "attention", "--at", "HEAD", *files])
        run_cli(["compare", "HEAD~1", "HEAD", "--bench", "track_step", *files])
        with closing(open_store(f"sqlite:///{folder / '.perfci' / 'perfci.db'}", create=False)) as store:
            judged = load_judged(store)
    return Measured(folder, judged, sorted((folder / "results" / "runs").glob("*.json")))


@pytest.fixture
def server_store(store: Store) -> Store:
    """The store of the server, on both databases."""
    return store


def load_judged(store: Store) -> Judged:
    """What is stored, without what another store numbers by itself."""
    with store.read() as tx:
        (project,) = load_projects(tx)
        comparisons = load_variant_comparisons(tx, project.id, limit=99)
        goals = load_goals(tx, project.id, limit=99)
    plain = [
        replace(
            record,
            id=0,
            steps=tuple(
                replace(step, verdicts=tuple(replace(verdict, evidence=()) for verdict in step.verdicts))
                for step in record.steps
            ),
        )
        for record in comparisons
    ]
    return sorted(plain, key=lambda record: record.kind), sorted(
        goals, key=lambda goal: (goal.session_uid, goal.subject)
    )


def count_rows(store: Store) -> list[int]:
    tables = ("variant_comparisons", "variant_steps", "variant_verdicts", "goal_clauses", "runs", "verdicts")
    with store.read() as tx:
        return [tx.scalar(sa.text(f"SELECT count(*) FROM {table}")) or 0 for table in tables]


def test_a_server_stores_what_the_runner_judged_once(
    measured: Measured,
    connection: SwitchableConnection,
    server_store: Store,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(measured.folder)
    send = ["upload", *map(str, measured.files), "--server", SERVER]

    assert run_cli(send) == 0
    first = count_rows(server_store)
    assert run_cli(send) == 0

    assert [len(records) for records in measured.judged] == [2, 4]
    assert load_judged(server_store) == measured.judged
    assert first == count_rows(server_store)
    assert first[-1] == 0  # nothing of it enters the verdicts between commits before it is judged
    assert capsys.readouterr().out.splitlines()[-1] == f"0 runs sent to {SERVER}, 6 already stored"
    with server_store.read() as tx:
        run_ids = tx.execute(sa.text("SELECT id FROM runs")).scalars().all()
        sent = [run for run in load_runs(tx, run_ids) if run.variant_comparisons or run.goals]
    assert sorted(map(run_document.dump_run, sent)) == sorted(
        text for text in (file.read_text() for file in measured.files) if '"created_at"' in text
    )
    steps = [step for record in measured.judged[0] for step in record.steps if step.numerics]
    assert {(step.name, check.metric, check.outcome) for step in steps for check in step.numerics} == {
        ("attn=flash", "loss_at_step_k", "agrees"),
        ("attn=math", "loss_at_step_k", "rejected"),
    }


def test_the_server_shows_them_and_keeps_them_out_of_histories(
    measured: Measured,
    connection: SwitchableConnection,
    server_store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(measured.folder)
    run_cli(["upload", *map(str, measured.files), "--server", SERVER])
    client = connection.app.test_client()
    with server_store.read() as tx:
        (project,) = load_projects(tx)
        kinds = tx.execute(sa.text("SELECT kind, count(*) FROM sessions GROUP BY kind ORDER BY kind")).all()
        waiting = tx.execute(sa.text("SELECT DISTINCT kind FROM outbox")).scalars().all()

    page = client.get(f"/{project.slug.replace('/', ':')}/variants").text

    assert "Ablation attention" in page.replace("<wbr>", "")
    assert "attn=flash at suite.Gpt.track_loss agrees with the baseline in loss_at_step_k" in page
    assert "goal fast" in page
    assert "✓" in page
    assert [tuple(row) for row in kinds] == [("compare", 2), ("variants", 2)]
    assert waiting == ["judge_pr"]


def test_a_foreign_document_is_refused_in_one_sentence(
    measured: Measured,
    connection: SwitchableConnection,
    server_store: Store,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(measured.folder)
    texts = [file.read_text() for file in measured.files]
    (genuine,) = (text for text in texts if '"kind":"vary"' in text)
    changes = {
        ('"kind":"vary"', '"kind":"guess"'): "Input should be 'vary' or 'ablation'",
        ('"kind":"vary"', '"kind":"vary","origin":"elsewhere"'): "Extra inputs are not permitted",
        ('"ratio":0.', '"ratio":-0.'): "Input should be greater than 0",
        (
            '"text":"step_time <= 0.8x"',
            '"text":"as fast as I say"',
        ): "the goal 'as fast as I say' cannot be read",
        (
            '"series":{"benchmark":"suite.Gpt.track_step"',
            '"series":{"benchmark":"other.Bench.time"',
        ): "judges the benchmark 'other.Bench.time', of which the run has no result",
    }
    for (before, after), sentence in changes.items():
        assert before in genuine
        (tmp_path / "hostile.json").write_text(genuine.replace(before, after, 1))

        assert run_cli(["upload", str(tmp_path / "hostile.json"), "--server", SERVER]) == 2

        error = capsys.readouterr().err
        assert sentence in error
        assert "Traceback" not in error
    assert count_rows(server_store) == [0] * 6


def test_files_of_recorded_runs_have_nothing_to_leave(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["compare", "--files", "a.json", "b.json", "--results", "out"]) == 2

    assert "--results is for what is measured: it does not go with --files" in capsys.readouterr().err
