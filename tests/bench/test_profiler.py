"""What a profile says: recordings made by hand, whose sums are known, and small real ones."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from asv_runner.benchmarks.mark import SkipNotImplemented
from bench.fake_device import FakeDevice
from bench.tiny_gpt import TinyGPT, some_tokens
from torch.autograd import DeviceType

from perfci.bench import Absent, ModelBench
from perfci.bench.devices.torch_devices import this_device
from perfci.bench.profiles import line_sampler
from perfci.bench.profiles.line_sampler import sample_lines
from perfci.bench.profiles.profile_tables import (
    CALL_RANGE,
    OUTSIDE_PHASES,
    PHASE_PREFIX,
    WAIT_RANGE,
    RecordedTables,
    TimeShare,
    build_profile_tables,
)
from perfci.bench.profiles.profiler import (
    Profile,
    choose_recorded_call_count,
    nvtx_range,
    profile_work,
    run_nvtx_ranges,
)
from perfci.bench.timers.stage_timers import PhaseMarker, null_phase

HERE = {str(Path(__file__).parent): "tests"}


@dataclass
class Event:
    """As much of torch's ``FunctionEvent`` as the tables read: microseconds, and what is around it."""

    name: str
    start: float
    end: float
    around: Event | None = None
    device_type: Any = DeviceType.CPU
    is_user_annotation: bool = False
    is_async: bool = False
    launches: tuple[float, ...] = ()
    inside: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.around is not None:
            self.around.inside.append(self)

    @property
    def time_range(self) -> SimpleNamespace:
        return SimpleNamespace(start=self.start, end=self.end)

    @property
    def cpu_parent(self) -> Event | None:
        return self.around

    @property
    def self_cpu_time_total(self) -> float:
        return self.end - self.start - sum(event.end - event.start for event in self.inside)

    @property
    def kernels(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(duration=duration) for duration in self.launches]


def call(start: float, end: float) -> Event:
    return Event(CALL_RANGE, start, end, is_user_annotation=True)


def phase(name: str, start: float, end: float, around: Event) -> Event:
    return Event(PHASE_PREFIX + name, start, end, around, is_user_annotation=True)


def kernel(name: str, start: float, end: float, *, mirrored: bool = False) -> Event:
    return Event(name, start, end, device_type=DeviceType.CUDA, is_user_annotation=mirrored)


def time_shares(rows: tuple[TimeShare, ...]) -> dict[str, tuple[float, float, float]]:
    """Microseconds, share and calls by name."""
    return {row.name: (round(row.seconds * 1e6, 3), round(row.share, 3), row.calls) for row in rows}


def a_step_on_a_gpu() -> RecordedTables:
    """Two calls of 100 us: the host launches for 60 us and waits; autograd launches from a thread of its
    own.
    """
    events = []
    for begin in (1000, 2000):
        whole = call(begin, begin + 100)
        forward = phase("forward", begin, begin + 30, whole)
        linear = Event("aten::linear", begin + 5, begin + 25, forward)
        product = Event("aten::addmm", begin + 10, begin + 20, linear, launches=(30.0,))
        backward = phase("backward", begin + 30, begin + 60, whole)
        node = Event("AddmmBackward0", begin + 35, begin + 55)
        gradient = Event("aten::mm", begin + 40, begin + 50, node, launches=(20.0, 20.0))
        waiting = Event(WAIT_RANGE, begin + 60, begin + 99, whole, is_user_annotation=True)
        synchronize = Event("cudaDeviceSynchronize", begin + 61, begin + 98, waiting)
        host = [whole, forward, linear, product, backward, node, gradient, waiting, synchronize]
        device = [
            kernel("gemm", begin + 12, begin + 42),
            kernel("gemm", begin + 45, begin + 65),
            kernel("copy", begin + 55, begin + 75),
            kernel(CALL_RANGE, begin + 12, begin + 75, mirrored=True),
            kernel("Optimizer.step#AdamW.step", begin + 12, begin + 75, mirrored=True),
        ]
        events += [*host, *device]
    return build_profile_tables(events)


# ------------------------------------------------------------------ what was recorded


def test_phases_sum_to_the_call_without_those_inside_them() -> None:
    whole = call(0, 100)
    decode = phase("decode", 20, 90, whole)

    tables = build_profile_tables(
        [whole, phase("prefill", 0, 20, whole), decode, phase("sample", 60, 90, decode)]
    )

    assert time_shares(tables.phases) == {
        "decode": (40, 0.4, 1),
        "sample": (30, 0.3, 1),
        "prefill": (20, 0.2, 1),
        OUTSIDE_PHASES: (10, 0.1, 1),
    }
    assert tables.seconds == pytest.approx(100e-6)


def test_a_benchmark_without_phases_has_no_phase_table() -> None:
    whole = call(0, 100)

    tables = build_profile_tables([whole, Event("aten::mm", 10, 50, whole)])

    assert tables.phases == ()
    assert time_shares(tables.operators) == {"aten::mm": (40, 1, 1)}


def test_an_operator_has_its_exclusive_time() -> None:
    operators = time_shares(a_step_on_a_gpu().operators)

    assert operators == {
        "aten::mm": (10, 0.25, 1),
        "aten::linear": (10, 0.25, 1),
        "aten::addmm": (10, 0.25, 1),
        "AddmmBackward0": (10, 0.25, 1),
    }


def test_a_kernel_is_counted_once_and_a_mirrored_range_never() -> None:
    assert time_shares(a_step_on_a_gpu().kernels) == {"gemm": (50, 0.714, 2), "copy": (20, 0.286, 1)}


def test_the_wait_at_the_end_is_a_phase_and_no_operator() -> None:
    phases = time_shares(a_step_on_a_gpu().phases)

    assert phases == {
        "(waiting for the device)": (39, 0.39, 1),
        "forward": (30, 0.3, 1),
        "backward": (30, 0.3, 1),
        OUTSIDE_PHASES: (1, 0.01, 1),
    }


def test_a_kernel_belongs_to_the_phase_that_was_open_when_any_thread_launched_it() -> None:
    assert time_shares(a_step_on_a_gpu().device_phases) == {
        "backward": (40, 0.571, 2),
        "forward": (30, 0.429, 1),
    }


def test_kinds_sum_all_kernels_and_not_the_largest_alone() -> None:
    whole = call(0, 1000)
    copies = [kernel(f"Memcpy number {number}", number, number + 1) for number in range(60)]

    tables = build_profile_tables([whole, *copies, kernel("ampere_sgemm_128x64_tn", 100, 120)])

    assert len(tables.kernels) == 20
    assert time_shares(tables.kinds) == {"copy": (60, 0.75, 60), "matmul": (20, 0.25, 1)}


def test_concurrent_kernels_count_once_as_busy() -> None:
    tables = a_step_on_a_gpu()

    assert tables.busy == pytest.approx(0.6)  # 12 to 42 and 45 to 75
    assert tables.in_operators == pytest.approx(0.4)  # 5 to 25 and, on the other thread, 35 to 55


def test_the_call_that_starts_the_tracer_is_left_out() -> None:
    first, second = Event(PHASE_PREFIX + "the call that starts the tracer", 0, 900), call(1000, 1100)

    tables = build_profile_tables(
        [first, Event("aten::mm", 10, 890, first), second, Event("aten::mm", 1010, 1020, second)]
    )

    assert time_shares(tables.operators) == {"aten::mm": (10, 1, 1)}
    assert tables.in_operators == pytest.approx(0.1)


def test_an_event_that_ends_on_another_thread_is_left_out() -> None:
    whole = call(0, 100)

    tables = build_profile_tables([whole, Event("nccl:all_reduce", 10, 90, whole, is_async=True)])

    assert tables.operators == ()
    assert tables.in_operators == 0


# ------------------------------------------------------------------ small real profiles


class Tiny(ModelBench):
    def build(self, p: Any) -> TinyGPT:
        return TinyGPT().to(self.device)

    def batch(self, p: Any, i: int) -> torch.Tensor:
        return some_tokens().to(self.device)

    def loss(self, model: TinyGPT, batch: torch.Tensor) -> torch.Tensor:
        return model.loss(batch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("profile")


@pytest.fixture(scope="module")
def profiled(folder: Path) -> Profile:
    return profile_work(Tiny.measure_training.build_profiled_work(Tiny()), folder, roots=HERE)


def test_a_step_is_its_phases(profiled: Profile) -> None:
    phases = {row.name: row for row in profiled.phases}

    assert set(phases) - {WAIT_RANGE.removeprefix(PHASE_PREFIX)} == {
        "forward",
        "backward",
        "optimizer",
        OUTSIDE_PHASES,
    }
    assert sum(row.share for row in profiled.phases) == pytest.approx(1)
    assert sum(row.seconds for row in profiled.phases) == pytest.approx(profiled.seconds)


def test_operators_are_those_of_one_call(profiled: Profile) -> None:
    calls = {row.name: row.calls for row in profiled.operators}

    assert calls["aten::addmm"] == 8
    assert 0 < sum(row.share for row in profiled.operators) <= 1
    assert 0 < profiled.in_operators <= 1


def test_our_own_ranges_are_not_operators(profiled: Profile) -> None:
    assert not any(row.name.startswith(PHASE_PREFIX) for row in profiled.operators)


def test_the_trace_opens_in_a_viewer_and_shows_the_phases(profiled: Profile, folder: Path) -> None:
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]

    names = [event.get("name") for event in events]
    assert names.count(CALL_RANGE) >= profiled.calls
    assert {"perfci: forward", "perfci: backward", "perfci: optimizer", "aten::addmm"} <= set(names)


def test_the_tables_are_written_as_they_are_returned(profiled: Profile, folder: Path) -> None:
    assert json.loads((folder / "profile.json").read_text()) == json.loads(json.dumps(asdict(profiled)))


@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels run here")
def test_kernels_of_a_cpu_are_absent_with_the_reason(profiled: Profile) -> None:
    missing = Absent(f"{this_device().name} runs no kernels of its own")

    assert (profiled.kernels, profiled.device_phases, profiled.busy) == (missing, missing, missing)


def test_a_device_that_the_profiler_does_not_know_is_waited_for_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_sampler, "MIN_CPU_S", 0.02)
    device = FakeDevice(kind="mps", name="Fake M4")

    shares = profile_work(lambda mark: torch.ones(4).sum(), tmp_path, device=device)

    assert shares.kernels == Absent("torch's profiler cannot see what runs on Fake M4")
    assert WAIT_RANGE.removeprefix(PHASE_PREFIX) in {row.name for row in shares.phases}
    assert device.synchronised >= shares.calls


def test_every_call_is_prepared_and_preparation_is_not_profiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_sampler, "MIN_CPU_S", 0.02)
    happened: list[str] = []

    def prepare() -> None:
        happened.append("prepare")
        torch.ones(300, 300) @ torch.ones(300, 300)

    def work(mark: PhaseMarker) -> None:
        happened.append("call")
        torch.ones(4).cumsum(0)

    shares = profile_work(work, tmp_path, before_call=prepare)

    assert happened == ["prepare", "call"] * (len(happened) // 2)
    assert {row.name for row in shares.operators} >= {"aten::cumsum"}
    assert not {row.name for row in shares.operators} & {"aten::mm", "aten::matmul"}


@pytest.mark.parametrize(
    ("call_s", "calls"), [(0.0, 1), (0.001, 10), (0.05, 10), (0.1, 5), (0.26, 2), (30.0, 1)]
)
def test_short_calls_are_recorded_more_often(call_s: float, calls: int) -> None:
    assert choose_recorded_call_count(call_s) == calls


@pytest.mark.parametrize(("events", "calls"), [(1_000, 10), (50_000, 3), (100_000, 1), (1_000_000, 1)])
def test_calls_of_many_events_are_recorded_less_often(events: int, calls: int) -> None:
    assert choose_recorded_call_count(0.001, events) == calls


def test_of_a_long_request_the_first_chunks_are_profiled() -> None:
    chunks: list[int] = []

    class Endless(ModelBench):
        groups = ("generation",)

        def build(self, p: Any) -> TinyGPT:
            return TinyGPT()

        def stream(self, model: TinyGPT, p: Any) -> Iterator[int]:
            while True:
                chunks.append(len(chunks))
                yield chunks[-1]

    Endless.measure_generation.build_profiled_work(Endless())(null_phase)

    assert len(chunks) == 64


# ------------------------------------------------------------------ ranges for another profiler


class Nvtx:
    """What torch.cuda would be asked on a machine with a GPU."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, initialised: bool) -> None:
        self.said: list[str] = []
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: initialised)
        monkeypatch.setattr(torch.cuda.nvtx, "range_push", lambda name: self.said.append(f"push {name}"))
        monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: self.said.append("pop"))
        monkeypatch.setattr(torch.cuda.profiler, "start", lambda: self.said.append("start"))
        monkeypatch.setattr(torch.cuda.profiler, "stop", lambda: self.said.append("stop"))


def test_nothing_is_pushed_where_cuda_was_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    nvtx = Nvtx(monkeypatch, initialised=False)

    with nvtx_range("forward"):
        pass

    assert nvtx.said == []


def test_a_range_ends_with_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    nvtx = Nvtx(monkeypatch, initialised=True)

    with contextlib.suppress(ValueError), nvtx_range("forward"):
        raise ValueError

    assert nvtx.said == ["push forward", "pop"]


def marked(mark: PhaseMarker) -> None:
    with mark("forward"):
        time.sleep(0.3)


def test_only_the_warm_calls_are_between_start_and_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    nvtx = Nvtx(monkeypatch, initialised=True)

    run_nvtx_ranges(marked, device=FakeDevice(), warmup_calls=1)

    assert nvtx.said == ["start", *["push one call", "push forward", "pop", "pop"] * 2, "stop"]


def test_without_cuda_there_are_no_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    Nvtx(monkeypatch, initialised=False)

    with pytest.raises(
        SkipNotImplemented, match="it did not use CUDA, so there are no ranges that nsys could show"
    ):
        run_nvtx_ranges(lambda mark: None, device=FakeDevice())


# ------------------------------------------------------------------ lines


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def line_of(row: TimeShare) -> str:
    """The text of a line, without where it is."""
    return row.name.split(": ", 1)[1]


@pytest.mark.usefixtures("one_thread")
def test_an_operator_counts_for_its_own_line_and_not_for_the_next_call() -> None:
    x, few = torch.randn(600, 600), torch.randn(10)

    def call() -> None:
        product = x @ x
        torch.relu(few)
        torch.relu(product[0])

    shares = sample_lines(call, roots=HERE)

    assert line_of(shares[0]) == "product = x @ x"
    assert shares[0].share > 0.5
    assert sum(row.share for row in shares) == pytest.approx(1, abs=1e-4)


def test_time_in_a_library_counts_for_the_line_that_called_it() -> None:
    nested = json.dumps([[{"a": [1.5] * 20}] * 20] * 20)

    def call() -> None:
        json.dumps(json.loads(nested), indent=1)

    shares = sample_lines(call, roots=HERE)

    (line,) = {line_of(row) for row in shares if row.share > 0.02}
    assert line == "json.dumps(json.loads(nested), indent=1)"
    assert shares[0].name.startswith("tests/test_profiler.py:")


def test_a_step_counts_for_lines_of_the_model_or_else_of_perfci(profiled: Profile) -> None:
    where = {row.name.split(":")[0]: line_of(row) for row in profiled.lines}

    assert {"tests/tiny_gpt.py", "perfci/bench/metric_groups/training_loop.py"} <= set(where)
    assert "self._scaler.scale(loss).backward()" in {line_of(row) for row in profiled.lines}
    assert not set(where) & {"perfci/bench/profiles/profiler.py", "perfci/bench/profiles/line_sampler.py"}


def test_without_roots_all_code_outside_libraries_is_the_project() -> None:
    def call() -> None:
        sum(k * k for k in range(20_000))

    shares = sample_lines(call)

    assert line_of(shares[0]) == "sum(k * k for k in range(20_000))"
    assert shares[0].name.startswith(str(Path(__file__)))


def test_time_between_calls_is_not_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_sampler, "MIN_CPU_S", 0.1)

    def between() -> None:
        sum(k * k for k in range(100_000))

    def call() -> None:
        sum(k + k for k in range(10_000))

    shares = sample_lines(call, before_call=between, roots=HERE)

    assert "sum(k * k for k in range(100_000))" not in {line_of(row) for row in shares}
    assert line_of(shares[0]) == "sum(k + k for k in range(10_000))"


def test_a_call_that_only_waits_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_sampler, "MAX_WALL_S", 0.2)
    calls = []

    sample_lines(lambda: calls.append(time.sleep(0.05)), roots=HERE)

    assert 1 <= len(calls) <= 4


def test_a_call_that_raises_leaves_the_interpreter_as_it_was() -> None:
    before = sys.getswitchinterval()

    with pytest.raises(ValueError, match="no such batch"):
        sample_lines(lambda: _raise("no such batch"), roots=HERE)

    assert sys.getswitchinterval() == before
    assert "perfci lines" not in {thread.name for thread in threading.enumerate()}


def _raise(reason: str) -> None:
    raise ValueError(reason)
