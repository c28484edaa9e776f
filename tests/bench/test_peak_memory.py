"""Peak tensor bytes, held against counts made by hand (float32: four bytes each)."""

from __future__ import annotations

import copy
import gc
import subprocess
import sys
from collections.abc import Callable

import pytest
import tiny_gpt as tiny
import torch
from fake_device import FakeDevice
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.bench import peak_allocated_bytes, peak_tensor_bytes
from perfci.bench.call_counts.count_call import count_call
from perfci.bench.memory_use.peak_memory import (
    MEMORY_METRICS,
    allocator_readings,
    fake_peak_bytes,
)
from perfci.bench.readings import UNITS, Absent, Reading
from perfci.model import Clock, PerfciError


def test_counts_only_what_is_alive_at_once() -> None:
    def work() -> None:
        a = torch.ones(1000)
        b = a + 1
        del a
        c = b * 2
        del b
        c.add_(1)

    assert peak_tensor_bytes(work) == 8000


def test_counts_a_storage_once_however_many_views_it_has() -> None:
    def work() -> None:
        a = torch.ones(1000)
        _views = [a[:500], a.view(10, 100), a.t(), a.detach()]

    assert peak_tensor_bytes(work) == 4000


def test_sees_a_storage_that_is_emptied_while_its_tensor_lives() -> None:
    def work() -> None:
        gathered = torch.ones(1000)
        gathered.untyped_storage().resize_(0)
        _other = torch.ones(900)

    assert peak_tensor_bytes(work) == 4000
    assert torch.ones(3).untyped_storage().resize_(4).nbytes() == 4


def test_keeps_a_storage_alive_through_its_last_view() -> None:
    def work() -> None:
        view = torch.ones(1000)[:1]
        _other = torch.ones(1000)
        del view

    assert peak_tensor_bytes(work) == 8000


def test_follows_a_storage_that_grows_in_place() -> None:
    def work() -> None:
        a = torch.empty(10)
        a.resize_(1000)
        torch.ones(500, out=torch.empty(0))

    assert peak_tensor_bytes(work) == 6000


def test_adds_pre_existing_tensors_to_every_earlier_peak() -> None:
    before = torch.ones(1000)

    def work() -> None:
        torch.ones(2000)
        before.add_(1)

    assert peak_tensor_bytes(work) == 12000


def test_ignores_pre_existing_tensors_that_are_never_used() -> None:
    _before = torch.ones(1000)

    assert peak_tensor_bytes(lambda: torch.ones(10)) == 40


@pytest.mark.parametrize(("grad", "expected"), [(False, 12000), (True, 16000)])
def test_counts_what_autograd_saves_for_backward(grad: bool, expected: int) -> None:
    x = torch.zeros(1000, requires_grad=True)

    def forward() -> None:
        with torch.set_grad_enabled(grad):
            x.exp().exp().exp()  # outputs are saved for backward; else only the last input is alive

    assert peak_tensor_bytes(forward) == expected


def test_counts_the_gradients_that_backward_makes() -> None:
    x = torch.zeros(1000, requires_grad=True)

    # x, exp(x), the sum, the gradient of the sum (4 bytes each, expanded without storage), and x.grad.
    assert peak_tensor_bytes(lambda: x.exp().sum().backward()) == 3 * 4000 + 2 * 4


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        (
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=False),
            3 * 400,
        ),  # weight, gradient, momentum
        (
            lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
            4 * 400 + 4,
        ),  # weight, gradient, two moments, step
    ],
)
def test_counts_the_state_of_the_optimizer(
    optimizer: Callable[[list[torch.Tensor]], torch.optim.Optimizer], expected: int
) -> None:
    def work() -> None:
        weight = torch.ones(100, requires_grad=True)
        weight.grad = torch.ones(100)
        optimizer([weight]).step()

    assert peak_tensor_bytes(work) == expected


def test_counts_indices_and_values_of_a_sparse_tensor() -> None:
    def work() -> None:
        torch.sparse_coo_tensor(
            torch.zeros(1, 10, dtype=torch.int64), torch.ones(10), (5,), check_invariants=False
        )

    assert peak_tensor_bytes(work) == 10 * 8 + 10 * 4


def test_refuses_a_layout_it_cannot_count() -> None:
    with pytest.raises(NotImplementedError, match="layout"):
        peak_tensor_bytes(lambda: torch.ones(10, 10).to_mkldnn())


@given(st.lists(st.one_of(st.integers(1, 300), st.sampled_from([-1, -2, -3])), max_size=30))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_agrees_with_a_ledger_of_random_allocations(actions: list[int]) -> None:
    ledger = most = 0
    sizes: list[int] = []
    for action in actions:
        if action > 0:
            sizes.append(action * 4)
        elif sizes:
            sizes.pop(action % len(sizes))
        ledger = sum(sizes)
        most = max(most, ledger)

    def work() -> None:
        held: list[torch.Tensor] = []
        for action in actions:
            if action > 0:
                held.append(torch.zeros(action))
            elif held:
                held.pop(action % len(held))

    assert peak_tensor_bytes(work) == most


def test_counts_garbage_in_cycles_as_alive_and_restores_the_collector() -> None:
    def work() -> None:
        for _ in range(3):
            cycle: list[object] = [torch.ones(1000)]
            cycle.append(cycle)

    assert peak_tensor_bytes(work) == 12000
    assert gc.isenabled()


def test_restores_the_collector_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        peak_tensor_bytes(lambda: 1 / 0)

    assert gc.isenabled()


TRAINING = """
import torch
from perfci.bench import peak_tensor_bytes
torch.manual_seed(0)
model = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
optimizer = torch.optim.AdamW(model.parameters())
def step():
    optimizer.zero_grad()
    model(torch.randn(4, 16, 32)).square().mean().backward()
    optimizer.step()
print(peak_tensor_bytes(step), peak_tensor_bytes(step))
"""


def test_gives_the_same_number_in_every_process(capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = subprocess.run(
        [sys.executable, "-c", TRAINING], capture_output=True, text=True, check=True
    ).stdout
    exec(TRAINING, {})

    assert capsys.readouterr().out == elsewhere
    assert int(elsewhere.split()[0]) > 0


def test_allocator_peaks_are_skipped_where_there_is_no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    with pytest.raises(NotImplementedError, match="CUDA"):
        peak_allocated_bytes(lambda: None)


def test_allocator_peaks_forget_what_was_before(monkeypatch: pytest.MonkeyPatch) -> None:
    peak = {"allocated_bytes.all.peak": 900}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name in ("synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    monkeypatch.setattr(
        torch.cuda, "reset_peak_memory_stats", lambda: peak.update({"allocated_bytes.all.peak": 0})
    )
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda: peak)

    assert peak_allocated_bytes(lambda: peak.update({"allocated_bytes.all.peak": 70})) == 70


# Without computing


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_fake_tensors_need_as_much_as_real_ones(dtype: torch.dtype, checkpointing: bool) -> None:
    def train() -> None:
        model = tiny.TinyGPT(checkpointing=checkpointing).to(dtype)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        for _ in range(2):
            optimizer.zero_grad()
            model.loss(tiny.some_tokens()).backward()
            optimizer.step()

    assert fake_peak_bytes(train) == peak_tensor_bytes(train)


def infer_with_an_encoder() -> None:
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    with torch.no_grad():
        encoder(torch.randn(2, 256, 32))


def test_sees_the_scores_inside_a_fused_layer() -> None:
    """torch's profiler sees every allocation, in kernels too."""
    with torch.profiler.profile(profile_memory=True) as recorded:
        infer_with_an_encoder()
    live = peak = 0
    for event in recorded.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)

    assert peak_tensor_bytes(infer_with_an_encoder) == pytest.approx(peak, rel=0.01)
    assert fake_peak_bytes(infer_with_an_encoder) == peak_tensor_bytes(infer_with_an_encoder)
    assert peak > 2 * 4 * 256 * 256 * 4  # batch x heads x length x length


def test_a_fused_layer_leaves_resizing_as_it_was() -> None:
    before = torch.UntypedStorage.resize_

    peak_tensor_bytes(infer_with_an_encoder)

    assert torch.UntypedStorage.resize_ is before


def test_a_kernel_with_memory_of_its_own_makes_the_peak_absent() -> None:
    lstm, sound = torch.nn.LSTM(8, 16), torch.randn(4, 2, 8)

    with pytest.raises(NotImplementedError) as skipped:
        peak_tensor_bytes(lambda: lstm(sound)[0].sum().backward())
    counts = count_call(lambda: lstm(sound)[0].sum().backward())

    reason = (
        "mkldnn_rnn_layer and mkldnn_rnn_layer_backward take memory inside their kernels that no tensor shows"
    )
    assert str(skipped.value) == reason
    assert counts.peak_tensor_bytes == Absent(reason)
    assert counts.operators > 0


def test_a_deep_copy_of_a_fake_model_can_be_used() -> None:
    def average() -> None:
        model = tiny.TinyGPT()
        copy.deepcopy(model)(tiny.some_tokens())

    assert fake_peak_bytes(average) == peak_tensor_bytes(average)


def test_fake_tensors_take_no_memory() -> None:
    assert fake_peak_bytes(lambda: torch.ones(1 << 50).add_(1)) == 4 << 50


def test_reports_that_a_value_is_needed() -> None:
    with pytest.raises(PerfciError, match="needs a computed value"):
        fake_peak_bytes(lambda: bool(torch.ones(3).all()))


def test_leaves_torch_as_it_was_after_an_error() -> None:
    import weakref

    with pytest.raises(ZeroDivisionError):
        fake_peak_bytes(lambda: 1 / 0)

    assert torch.utils.weakref is weakref
    assert torch.ones(3).sum().item() == 3


# The process

RESIDENT = """
import torch
from pathlib import Path
from perfci.bench.memory_use.peak_memory import peak_tensor_bytes
torch.set_num_threads(1)
def status_bytes(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))
def work():
    a = torch.ones(16 << 20)
    b = a + 1
    del a
    return b * 2 + b
torch.ones(1 << 20) * 2 + 1  # what torch sets up once
Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew (proc(5))
before = status_bytes("VmRSS")
work()
print(status_bytes("VmHWM") - before, peak_tensor_bytes(work))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_tensor_bytes_match_the_resident_memory_of_large_tensors() -> None:
    done = subprocess.run([sys.executable, "-c", RESIDENT], capture_output=True, text=True, check=True)

    resident, counted = map(int, done.stdout.split())

    assert counted == 3 * (64 << 20)
    assert resident == pytest.approx(counted, rel=0.02)


# The allocator

QUIET = {
    "allocated_bytes.all.peak": 0,
    "reserved_bytes.all.peak": 0,
    "active_bytes.all.peak": 0,
    "requested_bytes.all.peak": 0,
    "inactive_split_bytes.all.peak": 0,
    "num_alloc_retries": 3,
    "num_ooms": 1,
    "num_device_alloc": 40,
    "num_sync_all_streams": 0,
}


class AllocatingDevice(FakeDevice):
    """Keeps the statistics a caching allocator keeps, of a program that says what happens."""

    def reset_peak_memory(self) -> None:
        super().reset_peak_memory()
        assert self.stats is not None
        self.stats |= {name: 0 for name in self.stats if name.endswith("peak")}

    def happen(self, **sizes: int) -> None:
        assert self.stats is not None
        for name, size in sizes.items():
            if name.startswith("num_"):
                self.stats[name] += size
            else:
                key = f"{name}_bytes.all.peak"
                self.stats[key] = max(self.stats[key], size)


def test_reads_the_allocators_own_peaks_and_what_follows_from_them() -> None:
    device = AllocatingDevice(stats=dict(QUIET))

    readings = allocator_readings(
        device,
        lambda: device.happen(allocated=700, requested=690, active=750, reserved=1000, inactive_split=120),
    )

    values = {name: reading.samples for name, reading in readings.items() if isinstance(reading, Reading)}
    assert values == {
        "peak_allocated_bytes": (700.0,),
        "peak_reserved_bytes": (1000.0,),
        "peak_active_bytes": (750.0,),
        "peak_requested_bytes": (690.0,),
        "peak_inactive_split_bytes": (120.0,),
        "rounding_bytes": (10.0,),
        "fragmentation": (0.25,),
        "num_alloc_retries": (0.0,),
        "num_ooms": (0.0,),
        "num_device_alloc": (0.0,),
        "num_sync_all_streams": (0.0,),
    }


def test_forgets_the_warm_up_and_gives_its_cache_back_before_it_measures() -> None:
    device = AllocatingDevice(stats=dict(QUIET))
    sizes = iter([5000, 4000, 700, 900])

    readings = allocator_readings(device, lambda: device.happen(allocated=next(sizes), reserved=1), warmups=2)

    assert readings["peak_allocated_bytes"] == Reading((700.0,))  # of the third call alone
    assert (device.cache_emptied, device.peaks_reset, device.synchronised) == (1, 1, 3)


def test_counts_events_over_a_call_that_finds_its_memory_there() -> None:
    device = AllocatingDevice(stats=dict(QUIET))
    allocations = iter([9, 40, 7])

    readings = allocator_readings(
        device, lambda: device.happen(reserved=1, num_device_alloc=next(allocations))
    )

    assert readings["num_device_alloc"] == Reading((7.0,), Clock.EXACT)
    assert readings["num_ooms"] == Reading((0.0,), Clock.EXACT)  # the one of long ago is not counted


def test_every_allocator_reading_is_declared_and_absent_where_there_is_no_allocator() -> None:
    readings = allocator_readings(
        FakeDevice(kind="cpu", name="CPU (AVX2)", stats=None), lambda: pytest.fail("nothing is measured")
    )

    assert list(readings) == [metric.name for metric in MEMORY_METRICS]
    assert {metric.unit for metric in MEMORY_METRICS} <= UNITS
    assert all(
        isinstance(reading, Absent) and "CPU (AVX2)" in reading.reason for reading in readings.values()
    )


def test_an_allocator_without_peaks_gives_no_peaks() -> None:
    apple = FakeDevice(kind="mps", name="Apple M4", stats={"allocated_bytes.all.current": 7})

    readings = allocator_readings(apple, lambda: None)

    assert list(readings) == [metric.name for metric in MEMORY_METRICS]
    assert all(isinstance(reading, Absent) for reading in readings.values())


def test_no_reserved_memory_has_no_fragmentation() -> None:
    device = AllocatingDevice(stats=dict(QUIET))

    assert isinstance(allocator_readings(device, lambda: None)["fragmentation"], Absent)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA's allocator needs CUDA")
def test_agrees_with_cudas_own_figure() -> None:
    from perfci.bench.devices.torch_devices import this_device

    readings = allocator_readings(this_device(), lambda: torch.ones(1 << 20, device="cuda") + 1)

    assert readings["peak_allocated_bytes"] == Reading((float(torch.cuda.max_memory_allocated()),))


def test_says_in_words_what_fake_tensors_cannot_tell() -> None:
    def route() -> None:
        tokens = torch.ones(8, 4)
        chosen = tokens[(tokens[:, 0] > 0).nonzero(as_tuple=True)[0]]
        if chosen.shape[0] > 3:
            chosen.sum()

    with pytest.raises(PerfciError, match=r"a size or a branch depends on numbers, as after nonzero\(\)"):
        fake_peak_bytes(route)
