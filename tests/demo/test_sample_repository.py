"""The sample repository: built the same everywhere, and moving what its notes say and nothing else."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perfci.demo.sample_repository import PlantedChange, make_sample_repository, read_planted_changes
from perfci.model import PerfciError

TRAINING = "training.Step.time_step"
GENERATION = "generation.Generate.time_generate"
MEMORY = "memory.Training.track_peak_bytes"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("story") / "tinylm"
    make_sample_repository(folder)
    return folder


@pytest.fixture(scope="module")
def shas(repository: Path) -> list[str]:
    return git(repository, "rev-list", "--reverse", "--first-parent", "main").split()


@pytest.fixture(scope="module")
def planted(repository: Path) -> list[PlantedChange]:
    return read_planted_changes(repository)


@pytest.fixture(scope="module")
def visits(repository: Path, shas: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the suite of every commit does on that commit's code, by sha."""
    trees = tmp_path_factory.mktemp("trees")
    code = {sha: git(repository, "rev-parse", f"{sha}:tinylm", f"{sha}:benchmarks") for sha in shas}
    first = {code[sha]: sha for sha in reversed(shas)}  # what runs the same files is visited once
    for sha in first.values():
        (trees / sha).mkdir()
        git(repository, f"--work-tree={trees / sha}", "checkout", "--force", sha, "--", ".")
    git(repository, "reset", "--hard", "--quiet", "main")
    probe = Path(__file__).with_name("sample_probe.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(probe), str(trees), *first.values()],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return {sha: document[first[code[sha]]] for sha in shas}


def test_has_twenty_four_commits_in_the_order_of_their_dates(repository: Path) -> None:
    dates = git(repository, "log", "--reverse", "--format=%ct").split()

    assert len(dates) == 24
    assert dates == sorted(dates, key=int)


def test_leaves_a_clean_work_tree_of_the_last_commit(repository: Path) -> None:
    assert git(repository, "status", "--porcelain") == ""
    assert (
        repository / "perfci.toml"
    ).read_text() == '[project]\nname = "tinylm"\n\n[suite]\npath = "benchmarks"\n'


def test_gives_the_same_shas_whatever_the_user_configured(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "commit-msg").write_text("#!/bin/sh\nexit 1\n")
    (hooks / "commit-msg").chmod(0o755)
    (tmp_path / ".gitconfig").write_text(
        f"[user]\nname = Somebody\nemail = s@example.org\n[commit]\ngpgsign = true\n[gpg]\nprogram = false\n"
        f"[core]\nautocrlf = true\nhooksPath = {hooks}\n[init]\ndefaultBranch = trunk\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2001-01-01T00:00:00+00:00")

    make_sample_repository(tmp_path / "again")

    monkeypatch.delenv("GIT_DIR")
    references = "refs/heads/main", "refs/notes/planted"
    assert [git(tmp_path / "again", "rev-parse", r) for r in references] == [
        git(repository, "rev-parse", r) for r in references
    ]


def test_refuses_a_folder_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()

    with pytest.raises(PerfciError, match="needs an empty folder"):
        make_sample_repository(tmp_path)


def test_reports_in_one_sentence_that_git_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(PerfciError, match="git was not found"):
        make_sample_repository(tmp_path / "sample")


def test_plants_every_kind_of_change(planted: list[PlantedChange]) -> None:
    assert [(p.subject, p.benchmark, p.kind) for p in planted] == [
        ("Generate without gradients and without sorting", GENERATION, "improvement"),
        ("Compute the loss in double precision", TRAINING, "regression"),
        ("Compute the loss in double precision", MEMORY, "regression"),
        ('Revert "Compute the loss in double precision"', TRAINING, "improvement"),
        ('Revert "Compute the loss in double precision"', MEMORY, "improvement"),
        ("Report the accuracy of every training step", TRAINING, "regression"),
        ("Keep the last logits for the notebooks", MEMORY, "regression"),
        ("Generate with any model that scores tokens", GENERATION, "regression"),
        ("Follow the weights and gradients in histograms", TRAINING, "regression"),
    ]
    assert all(
        abs(p.relative_change) >= 0.15 and (p.relative_change > 0) == (p.kind == "regression")
        for p in planted
    )


def test_reverts_a_regression_three_commits_later(
    repository: Path, shas: list[str], planted: list[PlantedChange]
) -> None:
    wrong, revert = planted[1].sha, planted[3].sha

    assert shas.index(revert) - shas.index(wrong) == 3
    assert f"This reverts commit {wrong}." in git(repository, "show", "--no-patch", "--format=%b", revert)


def test_describes_planted_changes_only_in_git_notes(repository: Path) -> None:
    everything = git(repository, "log", "--no-notes", "--patch", "--format=full", "main")

    assert "planted" not in everything
    assert git(repository, "for-each-ref", "--format=%(refname)").split() == [
        "refs/heads/main",
        "refs/notes/planted",
    ]


@pytest.mark.slow
def test_every_commit_runs_the_same_three_cells_on_its_own_code(visits: dict[str, Any]) -> None:
    assert len(visits) == 24
    for visit in visits.values():
        assert visit["cells"] == sorted([TRAINING, GENERATION, MEMORY])
        assert visit["from_this_commit"]


@pytest.mark.slow
def test_peak_memory_moves_as_planted_and_elsewhere_by_not_one_byte(
    visits: dict[str, Any], shas: list[str], planted: list[PlantedChange]
) -> None:
    about = {p.sha: p.relative_change for p in planted if p.benchmark == MEMORY}

    for before, after in itertools.pairwise(shas):
        change = visits[after]["peak_bytes"] / visits[before]["peak_bytes"] - 1
        assert change == pytest.approx(about.get(after, 0.0), abs=0.01 if after in about else 0)


@pytest.mark.slow
def test_the_suite_counts_memory_as_perfci_does(visits: dict[str, Any]) -> None:
    assert all(visit["peak_bytes"] == visit["perfci_counts"] for visit in visits.values())


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", [TRAINING, GENERATION])
def test_commits_without_a_planted_change_run_the_same_operators(
    visits: dict[str, Any], shas: list[str], planted: list[PlantedChange], benchmark: str
) -> None:
    moved = {p.sha for p in planted if p.benchmark == benchmark}
    keeps_logits = {
        p.sha for p in planted if p.subject == "Keep the last logits for the notebooks"
    }  # one detach more

    for before, after in itertools.pairwise(shas):
        same = visits[after]["operators"][benchmark] == visits[before]["operators"][benchmark]
        assert same == (after not in moved | (keeps_logits if benchmark == TRAINING else set()))


@pytest.mark.slow
def test_keeping_logits_costs_training_one_operator_that_copies_nothing(
    visits: dict[str, Any], shas: list[str], planted: list[PlantedChange]
) -> None:
    (after,) = [p.sha for p in planted if p.subject == "Keep the last logits for the notebooks"]
    before = shas[shas.index(after) - 1]
    old, new = (visits[sha]["operators"][TRAINING] for sha in (before, after))

    assert sum(new.values()) - sum(old.values()) == 1
    assert all(name.startswith("aten.detach.default") for name in new if new[name] != old.get(name, 0))


@pytest.mark.slow
def test_the_sample_passes_its_own_tests(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", "tests"],
        cwd=repository,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()
