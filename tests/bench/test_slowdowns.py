"""The slowdowns of ``tools/study_slowdowns.py`` in a minute less: what they do to exact counts, without a
clock.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mutants
import pytest
import torch
from mutants import MUTANTS, Mutant

from tools.study_slowdowns import NOTHING, Trial, format_change, format_row

COUNTED = ("step_counts", "stream_counts", "numerics", "copy")
WITHOUT_COUNTS = {"loader-starved"}
"""Waiting cannot be counted: only the study sees it."""


ATTENTION = ("flash", "mem_efficient", "cudnn")
"""What ``math-attention`` switches off in torch."""


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


Counts = dict[str, float]


def count(folder: Path, mutant: Mutant | None = None) -> Counts:
    """Everything that the suite counts exactly in one state of the repository, by ``group.metric``."""
    mutants.write_base(folder)
    if mutant:
        mutants.apply(mutant, folder)
    try:
        return dict(_exact(_suite(folder)))
    finally:
        for name in ATTENTION:
            getattr(torch.backends.cuda, f"enable_{name}_sdp")(True)
        _forget()


def _suite(folder: Path) -> Any:
    """Import the suite with this folder's ``lm``, in sizes that take no time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(folder)
        spec = importlib.util.spec_from_file_location("lm_suite", folder / "benchmarks" / "suite.py")
        assert spec
        assert spec.loader
        suite = sys.modules["lm_suite"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(suite)
    sys.modules["lm.model"].LAYERS = 2  # type: ignore[attr-defined]
    suite.Model.answered = 8
    return suite


def _forget() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] in ("lm", "lm_suite")]:
        del sys.modules[name]


def _exact(suite: Any) -> Iterator[tuple[str, float]]:
    for group in COUNTED:
        owner = suite.Copy() if group == "copy" else suite.Model()
        for reading in getattr(owner, f"measure_{group}")()["metrics"]:
            if reading.get("clock") == "exact":
                (value,) = reading["samples"]
                yield f"{group}.{reading['name']}", value


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Counts:
    return count(tmp_path_factory.mktemp("lm") / "base")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_slowdown_moves_the_counts_that_name_it(mutant: Mutant, base: Counts, tmp_path: Path) -> None:
    after = count(tmp_path, mutant)

    worse = {name for name in base if after[name] > base[name]}
    moved = {name for name in base if after[name] != base[name]}
    expected = mutant.caught_in & base.keys()
    assert bool(expected) is (mutant.name not in WITHOUT_COUNTS)
    assert expected <= worse
    assert moved <= expected | mutant.may_move.keys()


def test_the_base_counts_the_same_twice(base: Counts, tmp_path: Path) -> None:
    assert count(tmp_path) == base


def test_every_patch_belongs_to_a_mutant() -> None:
    assert {patch.stem for patch in mutants.HERE.glob("*.patch")} == {mutant.name for mutant in MUTANTS}


# ------------------------------------------------------------------ how the study scores what it sees

LOST = Mutant("lost", frozenset({"generation.tpot"}), {"generation.ttft": "it may"})


def verdict(
    kind: str, ratio: float | None = None, half: float = 0.0, levels: tuple[float, float] = (0, 0)
) -> Any:
    interval = None if ratio is None else {"lo": ratio - half, "hi": ratio + half}
    return {
        "kind": kind,
        "ratio": ratio,
        "interval": interval,
        "base_level": levels[0],
        "head_level": levels[1],
    }


CAUGHT = {"generation.tpot": verdict("regression", 2.0, 0.1)}


def test_expected_and_permitted_changes_pass() -> None:
    trial = Trial(LOST, CAUGHT | {"generation.ttft": verdict("improvement", 0.9, 0.01)}, exit_code=1)

    assert trial.good
    assert (trial.caught, trial.moved_as_well, trial.stray) == (["generation.tpot"], ["generation.ttft"], [])


@pytest.mark.parametrize("kind", ["regression", "improvement", "failed", "missing", "not_comparable"])
def test_an_unnamed_metric_must_not_move(kind: str) -> None:
    trial = Trial(LOST, CAUGHT | {"training.step_time": verdict(kind)}, exit_code=1)

    assert not trial.good
    assert trial.stray == ["training.step_time"]


@pytest.mark.parametrize(
    "verdicts",
    [
        {},
        {"generation.tpot": verdict("inconclusive", 1.5, 0.6)},
        {"generation.tpot": verdict("improvement", 0.5)},
    ],
)
def test_an_expected_change_is_missed_unless_it_is_a_regression(verdicts: Any) -> None:
    trial = Trial(LOST, verdicts, exit_code=1)

    assert not trial.good
    assert trial.missed == ["generation.tpot"]


def test_a_failing_command_is_not_a_pass() -> None:
    assert Trial(NOTHING, {}, exit_code=0).good is False
    assert Trial(NOTHING, {"training.step_time": verdict("unchanged", 1.0)}, exit_code=0).good is True
    assert Trial(NOTHING, {"training.step_time": verdict("unchanged", 1.0)}, exit_code=2).good is False


def test_a_row_shows_sizes_and_what_was_missed() -> None:
    trial = Trial(LOST, {"generation.tpot": verdict("inconclusive", 1.5, 0.6)}, exit_code=0, seconds=12.3)

    assert format_row(trial) == (
        "lost",
        "✗",
        "**missed** `generation.tpot` (inconclusive +50.0 % [−10.0 %, +110 %])",
        "nothing",
        "nothing",
        "1",
        "12 s",
    )


def test_a_count_without_a_ratio_shows_both_levels() -> None:
    assert format_change(verdict("regression", levels=(0.0, 3.0))) == "0 → 3"
    assert format_change(verdict("regression", 1.5)) == "+50.0 %"
