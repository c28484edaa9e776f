"""How long a loop waits for batches: from workers that fetch ahead, with copies, at the end of an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest
import torch
from fake_device import FakeDevice
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from perfci.bench import Absent, ModelBench, Reading
from perfci.bench.loader_batches import EndlessLoader, LoaderEnded, move_to_device
from perfci.bench.metric_groups import data_wait
from perfci.bench.metric_groups.training_loop import TrainingLoop

BATCH = torch.ones(2, 4)


class SimulatedLoader:
    """A ``DataLoader`` on a fake clock: every worker needs ``batch_s`` for a batch, and they fetch ahead."""

    prefetch_factor = 2

    def __init__(self, device: FakeDevice, workers: int, batch_s: float, batches: int = 10_000) -> None:
        self.device, self.num_workers, self.batch_s, self.batches = device, workers, batch_s, batches

    def __iter__(self) -> Iterator[Tensor]:
        device, workers = self.device, max(1, self.num_workers)
        free_at, ready_at = [device.host_s] * workers, []
        for index in range(self.batches):
            while self.num_workers and len(ready_at) < index + self.prefetch_factor * workers:
                worker = len(ready_at) % workers
                free_at[worker] = max(free_at[worker], device.host_s) + self.batch_s
                ready_at.append(free_at[worker])
            device.host_s = max(device.host_s, ready_at[index] if ready_at else device.host_s + self.batch_s)
            yield BATCH


def measure_wait(
    monkeypatch: pytest.MonkeyPatch,
    device: FakeDevice,
    *,
    step_s: float,
    loader: Callable[[], Iterable[Any]] | None = None,
    batch: Callable[[], Any] | None = None,
) -> dict[str, Reading | Absent]:
    """Measure a loop whose steps take ``step_s`` seconds of the device (of the host on a CPU)."""

    class Net(ModelBench):
        target_device = device  # type: ignore[assignment]

        def build(self, p: Mapping[str, Any]) -> nn.Module:
            return nn.Linear(4, 4)

        def batch(self, p: Mapping[str, Any], i: int) -> Tensor:
            return BATCH if batch is None else batch()

        def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
            device.work(step_s) if device.kind == "cpu" else device.kernel(step_s)
            return model(batch).mean()  # type: ignore[no-any-return]

    if loader is not None:
        Net.loader = lambda self, p: loader()
    device.install(monkeypatch, data_wait.__name__)
    hooks = Net().bind_hooks({})
    return data_wait.read_data_wait(hooks, TrainingLoop(hooks), budget_s=0.0)


def value(reading: Reading | Absent) -> float:
    assert isinstance(reading, Reading)
    return sum(reading.samples) / len(reading.samples)


@pytest.mark.parametrize(
    ("workers", "batch_s", "wait_s"),
    [
        (0, 0.050, 0.050),  # nobody else fetches: the loop waits for all of it
        (2, 0.050, 0.015),  # a batch is there every 25 ms, of which the step takes 10
        (4, 0.050, 0.0025),
        (4, 0.036, 0.0),  # made faster than they are used
    ],
)
def test_reads_the_pace_of_workers_and_not_what_they_had_ready(
    monkeypatch: pytest.MonkeyPatch, workers: int, batch_s: float, wait_s: float
) -> None:
    cpu = FakeDevice(kind="cpu")

    read = measure_wait(monkeypatch, cpu, step_s=0.010, loader=lambda: SimulatedLoader(cpu, workers, batch_s))

    assert value(read["data_time"]) == pytest.approx(wait_s, abs=1e-6)
    assert value(read["data_stall"]) == pytest.approx(wait_s / (wait_s + 0.010), abs=1e-6)


def test_a_copy_that_waits_for_the_step_before_is_no_waiting_for_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = FakeDevice()

    def load_and_copy() -> Tensor:
        gpu.work(0.001)
        gpu.host_s = max(gpu.host_s, gpu.done_s)  # as a copy from pageable memory does
        return BATCH

    read = measure_wait(monkeypatch, gpu, step_s=0.020, batch=load_and_copy)

    assert value(read["data_time"]) == pytest.approx(0.001)
    assert value(read["data_stall"]) < 0.05


@pytest.mark.parametrize(("batch_s", "stall"), [(0.015, 0.0), (0.040, 0.5)])
def test_what_a_device_hides_behind_its_step_stalls_nothing(
    monkeypatch: pytest.MonkeyPatch, batch_s: float, stall: float
) -> None:
    gpu = FakeDevice()

    read = measure_wait(monkeypatch, gpu, step_s=0.020, loader=lambda: SimulatedLoader(gpu, 0, batch_s))

    assert value(read["data_time"]) == pytest.approx(batch_s)
    # The very first batch finds an idle device: an eighth of a batch of eight steps is not hidden.
    assert value(read["data_stall"]) == pytest.approx(stall, abs=0.1)


def test_an_epoch_that_ends_begins_again_outside_of_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = FakeDevice(kind="cpu")

    read = measure_wait(
        monkeypatch, cpu, step_s=0.010, loader=lambda: SimulatedLoader(cpu, 2, 0.050, batches=11)
    )

    assert value(read["data_time"]) == pytest.approx(0.015, abs=1e-6)


def test_epochs_that_are_too_short_are_absent_with_the_number_that_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cpu = FakeDevice(kind="cpu")

    read = measure_wait(
        monkeypatch, cpu, step_s=0.010, loader=lambda: SimulatedLoader(cpu, 2, 0.050, batches=5)
    )

    assert read["data_stall"] == Absent(
        "the loader's epochs are too short to read how long it lets a step wait: 8 batches are needed, more "
        "of them give a better reading"
    )


def test_waiting_for_workers_is_no_work_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = FakeDevice(kind="cpu")

    alone = measure_wait(monkeypatch, cpu, step_s=0.010, loader=lambda: SimulatedLoader(cpu, 0, 0.050))
    helped = measure_wait(monkeypatch, cpu, step_s=0.010, loader=lambda: SimulatedLoader(cpu, 2, 0.050))

    assert isinstance(alone["data_time"], Reading)
    assert isinstance(helped["data_time"], Reading)
    assert len(alone["data_time"].cpu) == len(alone["data_time"].samples)
    assert not helped["data_time"].cpu


def test_a_loader_begins_again_and_counts_it() -> None:
    batches = EndlessLoader(lambda: DataLoader(TensorDataset(torch.arange(3)), batch_size=1))

    values = [int(next(batches)[0]) for _ in range(7)]

    assert values == [0, 1, 2, 0, 1, 2, 0]
    assert batches.restarts == 2


def test_a_generator_that_has_ended_is_asked_for_anew() -> None:
    batches = EndlessLoader(lambda: iter(range(2)))

    assert [next(batches) for _ in range(5)] == [0, 1, 0, 1, 0]


def test_a_loader_that_has_ended_for_good_says_so() -> None:
    once = iter(range(2))
    batches = EndlessLoader(lambda: once)

    with pytest.raises(LoaderEnded, match=r"^the loader gave 2 batches, and none when it was begun again$"):
        [next(batches) for _ in range(3)]


def test_moves_all_tensors_of_a_batch_to_the_device() -> None:
    batch = {"tokens": torch.ones(2), "parts": [torch.ones(1), (torch.ones(1), "a text")], "count": 3}

    moved = move_to_device(batch, FakeDevice(torch_device="meta"))

    assert moved["tokens"].device == moved["parts"][1][0].device == torch.device("meta")
    assert moved["parts"][1][1] == "a text"
    assert moved["count"] == 3


class Loaded(ModelBench):
    """Real workers; there is no ``batch``, so training takes the loader's first ones."""

    budget_s = 0.02

    def build(self, p: Mapping[str, Any]) -> nn.Module:
        return nn.Linear(4, 4)

    def loader(self, p: Mapping[str, Any]) -> Iterable[Any]:
        generator = torch.Generator().manual_seed(0)
        return DataLoader(
            TensorDataset(torch.rand(64, 4)), 4, shuffle=True, generator=generator, num_workers=2
        )

    def loss(self, model: nn.Module, batch: list[Tensor]) -> Tensor:
        return model(batch[0]).square().mean()  # type: ignore[no-any-return]


def test_a_loader_alone_is_enough_to_train() -> None:
    report = Loaded().measure_training()  # type: ignore[attr-defined]

    readings = {row["name"]: row for row in report["metrics"]}
    assert readings["step_time"]["status"] == readings["data_stall"]["status"] == "ok"
    assert readings["data_time"]["clock"] == "wall"
    assert Loaded.omitted.keys() == {"generation", "stream_counts", "stages"}


def test_a_loader_alone_is_enough_for_fake_tensors() -> None:
    report = Loaded().measure_step_counts()  # type: ignore[attr-defined]

    readings = {row["name"]: row for row in report["metrics"]}
    assert readings["fake_peak_bytes"]["status"] == "ok"
