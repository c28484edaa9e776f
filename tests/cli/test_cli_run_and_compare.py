"""``perfci run`` and ``perfci compare`` with real processes and a real database."""

from __future__ import annotations

import json
import math
import sqlite3
from pathlib import Path

import pytest

from perfci.cli import run_cli
from perfci.stats.noise_floor import compute_noise_floor, scale_aa_log_ratios
from tests.support.git_project import GitProject

SUITE = """
    import thing

    def track_bytes():
        return thing.BYTES
    track_bytes.unit, track_bytes.metric, track_bytes.clock = "bytes", "peak", "exact"

    def track_other():
        return 7
    track_other.clock = "exact"
"""


@pytest.fixture
def project(working_folder: Path) -> GitProject:
    project = GitProject(working_folder)
    for number, size in enumerate((1000, 1000, 1200, 1200)):
        project.commit(f"Commit {number}", thing=f"BYTES = {size}\n", benchmarks__suite=SUITE)
    return project


def rows(project: GitProject, query: str) -> list[tuple]:
    with sqlite3.connect(project.folder / ".perfci" / "perfci.db") as database:
        return database.execute(query).fetchall()


def test_run_detects_the_commit_that_regressed(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_cli(["run", "HEAD~3..HEAD", "--rounds", "2", "--json"])

    document = json.loads(capsys.readouterr().out)
    moved = [v for v in document["verdicts"] if v["kind"] == "regression"]
    assert code == 0
    assert [(v["head"], v["stage"], v["ratio"]) for v in moved] == [
        (project.git("rev-parse", "HEAD~1"), "confirmation", 1.2)
    ]
    assert rows(project, "select count(*) from processes where role = 'history'") == [(12,)]


def test_stores_the_level_of_every_commit_while_measuring(project: GitProject) -> None:
    run_cli(["run", "HEAD~1..HEAD", "--rounds", "2"])

    assert rows(project, "select count(*), count(level), max(level) from results") == [(2, 2, 1200.0)]


def test_compare_confirms_on_pairs_unseen_by_screening(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_cli(["compare", "HEAD~2", "HEAD"])

    out = capsys.readouterr().out
    assert code == 1
    assert "▲  regression  suite.track_bytes" in out
    sessions = rows(project, "select kind, state from sessions order by id")
    assert sessions == [("compare", "finished"), ("confirm", "finished")]


def test_runs_measured_in_a_github_job_name_it_as_origin(
    project: GitProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"ACTIONS": "true", "RUN_ID": "17", "RUN_ATTEMPT": "2", "JOB": "bench"}.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)
    monkeypatch.setenv("GITHUB_EVENT_NAME", "pull_request")

    run_cli(["compare", "HEAD~2", "HEAD"])

    job = {"run_id": "17", "attempt": "2", "job": "bench", "event": "pull_request"}
    result = rows(project, "select origin, uid from runs join sessions on sessions.id = runs.session_id")
    assert [dict(json.loads(origin)) for origin, _ in result] == [{**job, "step": uid} for _, uid in result]


def test_measures_more_pairs_where_the_pooled_verdict_is_undecided(
    working_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project, counts = GitProject(working_folder), tmp_path / "counts"
    counts.mkdir()
    suite = f"""
        import pathlib
        import random
        import thing

        def track_level(number):
            name = f"{{number}}-{{thing.LEVEL}}"
            turn = len(list(pathlib.Path({str(counts)!r}).glob(name + "-*")))
            (pathlib.Path({str(counts)!r}) / f"{{name}}-{{turn}}").touch()
            noise = random.Random(f"{{name}}/{{turn}}").gauss(1, 0.03)
            return {{"samples": [thing.LEVEL * noise], "number": 1}}
        track_level.params = [0, 1, 2, 3, 4, 5]
    """
    project.commit("Fast", thing="LEVEL = 100.0\n", benchmarks__suite=suite)
    project.commit("Slow", thing="LEVEL = 107.5\n")

    run_cli(["compare", "HEAD~1", "HEAD", "--json"])

    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    held = [
        (v["series"]["parameters"], v["pairs"])
        for v in verdicts
        if "Not counted" in v["reason"] and v["pairs"] < 20
    ]
    assert held == []
    assert [v["kind"] for v in verdicts].count("regression") >= 4


def test_confirms_noisy_candidates_on_ten_fresh_pairs(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = GitProject(working_folder)
    suite = """
        import random
        import thing
        def track_level(): return {"samples": [thing.LEVEL * random.gauss(1, 0.01)], "number": 1}
    """
    project.commit("Fast", thing="LEVEL = 100.0\n", benchmarks__suite=suite)
    project.commit("Slow", thing="LEVEL = 150.0\n")

    assert run_cli(["compare", "HEAD~1", "HEAD"]) == 1

    of_confirmation = (
        "from processes p join results r on p.result_id = r.id join runs u on r.run_id = u.id "
        "join sessions s on u.session_id = s.id where s.kind = 'confirm'"
    )
    assert rows(project, f"select count(*), count(distinct p.pair) {of_confirmation}") == [(20, 10)]
    assert "10 pairs" in capsys.readouterr().out


def test_compare_with_itself_is_an_a_a_run(project: GitProject, capsys: pytest.CaptureFixture[str]) -> None:
    code = run_cli(["compare", "HEAD", "HEAD"])

    assert code == 0
    assert "No regression: 2 unchanged." in capsys.readouterr().out
    assert rows(project, "select kind from sessions") == [("aa",)]


def test_commits_with_identical_inputs_are_an_aa_run_and_cannot_fail(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = """
        from pathlib import Path

        import thing

        def track_words():
            return len((Path(thing.__file__).parent / "docs" / "guide.md").read_text())
        track_words.metric, track_words.clock = "words", "exact"
    """
    project.write("docs/guide.md", "Short.")
    project.commit("Describe it", benchmarks__suite=suite)
    project.write("docs/guide.md", "Longer than before.")
    project.commit("Describe it better", benchmarks__suite=suite)

    code = run_cli(["compare", "HEAD~1", "HEAD", "--markdown", "result.md", "--json", "result.json"])

    result = capsys.readouterr().out
    alarm = (
        "No file that the benchmarks depend on differs, so any change reported here is a false alarm "
        "and is counted as one."
    )
    assert code == 0
    assert result.endswith(f"\n{alarm}\n")
    assert f"\n**Identical inputs:** {alarm}\n" in (project.folder / "result.md").read_text(encoding="utf-8")
    assert (
        json.loads((project.folder / "result.json").read_text(encoding="utf-8"))["identical_inputs"] is True
    )
    assert rows(project, "select kind from sessions where kind != 'confirm'") == [("aa",)]

    project.write("perfci.toml", '[[goal]]\nrequire = ["words <= 0.5x"]\n')
    assert run_cli(["compare", "HEAD~1", "HEAD"]) == 1, "a goal is judged on identical inputs as well"


def test_compare_takes_the_working_tree_when_no_head_is_given(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write("thing.py", "BYTES = 2400\n")

    code = run_cli(["compare", "HEAD"])

    assert code == 1
    assert "Counted exactly: 1,200 became 2,400 (+100 %)." in capsys.readouterr().out
    assert rows(project, "select count(*) from commits where dirty = 1") == [(1,)]


def test_a_head_that_fails_where_the_base_works_is_a_regression(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    project.commit("Break it", thing="BYTES = None\n")

    code = run_cli(["compare", "HEAD~1", "--bench", "track_bytes"])

    captured = capsys.readouterr()
    assert code == 1
    assert captured.out.splitlines()[3].startswith("1 failed. suite.track_bytes · peak failed at ")
    assert (
        captured.err.count(
            "failed: TypeError: returned NoneType; a number or a mapping with samples was expected"
        )
        == 1
    )


def test_run_says_when_nothing_could_be_measured(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    GitProject(working_folder).commit(
        "All fail", benchmarks__suite="def track_one(): raise ValueError('no')\n"
    )

    assert run_cli(["run", "--rounds", "1"]) == 4
    assert "1 processes measured: 1 failed" in capsys.readouterr().out


def test_run_exits_with_1_when_some_cells_failed(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = "def track_one(): raise ValueError('no')\ndef track_two(): return 2\n"
    GitProject(working_folder).commit("Some fail", benchmarks__suite=suite)

    assert run_cli(["run", "--rounds", "1"]) == 1


def test_a_resumed_run_measures_only_what_is_missing(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["run", "HEAD~2..HEAD", "--rounds", "2", "--no-confirm"]) == 0
    with sqlite3.connect(project.folder / ".perfci" / "perfci.db") as database:
        database.execute("delete from processes where id > 3")
        database.execute("update sessions set state = 'running', finished_at = null")

    assert run_cli(["run", "HEAD~2..HEAD", "--rounds", "2", "--no-confirm"]) == 0

    assert "resuming an interrupted session: 3 readings are there already" in capsys.readouterr().err
    assert rows(
        project,
        "select count(*), count(distinct session_id) from processes p join results r on "
        "p.result_id = r.id join runs on r.run_id = runs.id",
    ) == [(8, 1)]


def test_raises_the_bar_of_a_series_with_a_high_noise_floor(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wandering = """
        import random
        import thing
        def track_level(): return {"samples": [thing.LEVEL * random.gauss(1, 0.004)], "number": 1}
    """
    project = GitProject(working_folder)
    project.commit("Wanders", thing="LEVEL = 100.0\n", benchmarks__suite=wandering)
    for _ in range(3):
        run_cli(["compare", "HEAD", "HEAD"])

    floors = rows(project, "select noise_floor from verdicts order by id")

    assert run_cli(["compare", "HEAD", "HEAD", "--json", "result.json"]) == 0
    (verdict,) = json.loads((working_folder / "result.json").read_text())["verdicts"]
    measured = rows(project, "select ratio, pairs from verdicts order by id")[:3]
    aa_runs = [(math.log(ratio), pairs) for ratio, pairs in measured]
    wandered = scale_aa_log_ratios(aa_runs, verdict["pairs"])
    assert len(floors) == 3
    assert verdict["noise_floor"] == pytest.approx(compute_noise_floor(wandered))


def test_half_a_pair_of_an_interrupted_comparison_is_not_a_missing_head(
    project: GitProject,
) -> None:
    requests = ["compare", "HEAD~2", "HEAD~3", "--bench", "track_bytes"]
    run_cli(requests)
    with sqlite3.connect(project.folder / ".perfci" / "perfci.db") as database:
        database.execute("delete from processes where id > 1")
        database.execute("update sessions set state = 'running', finished_at = null")

    assert run_cli([*requests, "--json", "result.json"]) == 0

    (verdict,) = json.loads((project.folder / "result.json").read_text())["verdicts"]
    assert (verdict["kind"], verdict["ratio"]) == ("unchanged", 1.0)


def test_compare_shows_the_shift_of_every_decile(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = GitProject(working_folder)
    suite = """
        import random, thing
        def track_level():
            samples = [random.gauss(100, 1) + (thing.PAUSE if k % 5 == 0 else 0) for k in range(30)]
            return {"samples": samples, "number": 1}
    """
    project.commit("Steady", thing="PAUSE = 0\n", benchmarks__suite=suite)
    project.commit("Pausing", thing="PAUSE = 60\n")

    run_cli(["compare", "HEAD~1", "HEAD", "--quantiles", "--json"])
    (curve,) = json.loads(capsys.readouterr().out)["quantile_shifts"]

    ratios = {shift["quantile"]: shift["ratio"] for shift in curve["shifts"]}
    assert ratios[0.9] > 1.5
    assert ratios[0.1] == pytest.approx(1, abs=0.02)
