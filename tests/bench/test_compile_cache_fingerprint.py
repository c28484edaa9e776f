from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from perfci.bench.compilers.compile_cache_fingerprint import (
    cache_fingerprint_flags,
    compile_cache_folders,
    fingerprint_caches,
)


def cache(folder: Path, **files: str) -> Path:
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def best(warps: int, time_taken_ms: int) -> str:
    return json.dumps({"num_warps": warps, "time_taken_ms": time_taken_ms, "configs_hash": "c0ffee"})


def test_equal_caches_have_one_fingerprint_wherever_they_lie(tmp_path: Path) -> None:
    item = cache(tmp_path / "one", ab__kernel_dot_py="x = 1", cd__code_dot_cpp="....")
    other = cache(tmp_path / "other" / "place", cd__code_dot_cpp="....", ab__kernel_dot_py="x = 1")

    assert fingerprint_caches([item]) == fingerprint_caches([other])
    assert fingerprint_caches([item]).startswith("2 files, ")


def test_one_more_kernel_is_another_state(tmp_path: Path) -> None:
    folder = cache(tmp_path, ab__kernel_dot_py="x = 1")
    before = fingerprint_caches([folder])

    cache(folder, cd__kernel_dot_py="x = 2")

    assert before.startswith("1 files, ")
    assert fingerprint_caches([folder]).startswith("2 files, ")


def test_another_chosen_configuration_is_another_state_and_the_time_it_took_is_not(tmp_path: Path) -> None:
    states = [
        fingerprint_caches([cache(tmp_path / str(number), k_dot_best_config=best(*chosen))])
        for number, chosen in enumerate([(4, 120), (4, 95), (8, 120)])
    ]

    assert states[0] == states[1] != states[2]


def test_lock_files_are_not_part_of_the_state(tmp_path: Path) -> None:
    folder = cache(tmp_path, kernel_dot_py="x = 1")
    before = fingerprint_caches([folder])

    cache(folder, locks__a_dot_lock="")

    assert fingerprint_caches([folder]) == before


def test_the_place_of_a_cache_in_its_sources_is_not_part_of_the_state(tmp_path: Path) -> None:
    states = [
        fingerprint_caches([cache(tmp_path / name, k_dot_py=f"load('{tmp_path / name}/k')")])
        for name in ("a", "b")
    ]

    assert states[0] == states[1]


def test_pickled_graphs_are_not_part_of_the_state(tmp_path: Path) -> None:
    folder = cache(tmp_path, kernel_dot_py="x = 1")
    before = fingerprint_caches([folder])

    cache(folder, fxgraph__ab__cd="pickled")

    assert fingerprint_caches([folder]) == before


def test_a_cache_that_is_not_there_is_an_empty_one(tmp_path: Path) -> None:
    assert fingerprint_caches([tmp_path / "nowhere"]) == fingerprint_caches([])


def test_an_unreadable_configuration_counts_by_its_content(tmp_path: Path) -> None:
    assert fingerprint_caches([cache(tmp_path, k_dot_best_config="{")]).startswith("1 files, ")


@pytest.fixture
def compilers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """A process that has torch's compilers loaded and has compiled nothing yet."""
    dynamo = SimpleNamespace(counters={"aot_autograd": Counter()})
    inductor = SimpleNamespace(cache_dir=lambda: str(tmp_path / "inductor"))
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", dynamo)
    monkeypatch.setitem(sys.modules, "torch._inductor.runtime.cache_dir_utils", inductor)
    monkeypatch.delitem(sys.modules, "triton.knobs", raising=False)
    return dynamo


def test_a_process_that_compiled_nothing_has_no_flag(compilers: SimpleNamespace) -> None:
    assert cache_fingerprint_flags() == ()


def test_a_process_that_compiled_has_the_state_as_a_flag(compilers: SimpleNamespace, tmp_path: Path) -> None:
    compilers.counters["aot_autograd"]["total"] += 1
    cache(tmp_path / "inductor", kernel_dot_py="x = 1")

    (flag,) = cache_fingerprint_flags()

    assert flag == f"caches: {fingerprint_caches([tmp_path / 'inductor'])}"


def test_triton_has_a_cache_of_its_own(
    compilers: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    knobs = SimpleNamespace(cache=SimpleNamespace(dir=str(tmp_path / "triton")))
    monkeypatch.setitem(sys.modules, "triton.knobs", knobs)

    assert compile_cache_folders() == [tmp_path / "triton"]
