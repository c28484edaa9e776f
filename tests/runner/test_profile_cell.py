"""What a cell calls when it is profiled, and what it says where it cannot be."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from perfci.runner.harness.profile_cell import (
    missing_profiler_reason,
    profile_benchmark,
    resolve_profiled_work,
)


def mark(phase: str) -> AbstractContextManager[None]:
    return nullcontext()


def a_benchmark(function: Any, *parameters: Any) -> SimpleNamespace:
    prepared: list[str] = []
    return SimpleNamespace(
        func=function,
        _current_params=parameters,
        redo_setup=lambda: prepared.append("set up"),
        prepared=prepared,
    )


def test_any_function_is_called_with_its_parameters_and_set_up_anew() -> None:
    benchmark = a_benchmark(lambda batch, dtype: (batch, dtype), 8, "bf16")

    work, prepare = resolve_profiled_work(benchmark)
    prepare()

    assert work(mark) == (8, "bf16")
    assert benchmark.prepared == ["set up"]


def test_a_function_may_choose_what_to_profile() -> None:
    def measure_reply(batch: int) -> None:
        raise AssertionError("this is what is measured")

    measure_reply.build_profiled_work = lambda batch: lambda mark: f"a reply to {batch}"  # type: ignore[attr-defined]
    benchmark = a_benchmark(measure_reply, 8)

    work, prepare = resolve_profiled_work(benchmark)
    prepare()

    assert work(mark) == "a reply to 8"
    assert benchmark.prepared == []


def test_a_method_may_choose_what_to_profile() -> None:
    class Model:
        name = "tiny"

        def measure_reply(self, batch: int) -> None:
            raise AssertionError("this is what is measured")

        measure_reply.build_profiled_work = lambda self, batch: lambda mark: f"{self.name} to {batch}"  # type: ignore[attr-defined]

    work, _ = resolve_profiled_work(a_benchmark(Model().measure_reply, 8))

    assert work(mark) == "tiny to 8"


def test_an_import_error_of_installed_tools_is_not_a_missing_package() -> None:
    assert missing_profiler_reason(ImportError("cannot import name 'lines'", name="perfci.bench")) == (
        "perfci.bench.profiles.profiler does not import in the environment that measures "
        f"({sys.executable}): "
        "cannot import name 'lines'"
    )


def test_a_missing_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "perfci.bench.profiles.profiler", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)

    outcome = profile_benchmark(a_benchmark(print), {"folder": "", "roots": {}})

    assert outcome["status"] == "failed"
    assert outcome["reason"].startswith(
        "torch is not installed in the environment that measures, and it is what profiles"
    )
