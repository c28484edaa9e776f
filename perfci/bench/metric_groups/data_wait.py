"""How long a training loop waits for its batches, and what part of its time the waiting is."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

from perfci.bench.bound_model_hooks import BoundModelHooks
from perfci.bench.devices.torch_devices import Device
from perfci.bench.loader_batches import EndlessLoader, LoaderEnded, move_to_device
from perfci.bench.metric_groups.training_loop import TrainingLoop
from perfci.bench.readings import Absent, Reading, informational
from perfci.model import Clock, Metric

METRICS = (Metric("data_time", "seconds"), Metric("data_stall", "ratio"))

MIN_STEPS = 8
"""Steps whose waiting is read, at least."""

MAX_BROKEN_CYCLES = 10
"""How often the end of an epoch may interrupt the reading."""


@dataclass(frozen=True, slots=True)
class BatchSource:
    """Where batches come from, and how they come.

    ``cycle`` steps belong together: of four workers that started together, one step waits and three do not.
    ``prefetch_depth`` batches may lie ready and say nothing of how fast they are made.
    """

    fetch: Callable[[], Any]
    is_own_work: bool
    """Whether this process itself makes the batches, so that its CPU seconds are those of waiting."""
    cycle: int = 1
    prefetch_depth: int = 0
    count_restarts: Callable[[], int] = lambda: 0


@dataclass(slots=True)
class LoopSpan:
    """Seconds of some steps: waiting for batches, by both clocks, and everything."""

    steps: int
    waited_s: float = 0.0
    waited_cpu_s: float = 0.0
    total_s: float = 0.0


def read_data_wait(
    hooks: BoundModelHooks, training: TrainingLoop, *, budget_s: float
) -> dict[str, Reading | Absent]:
    """Read ``data_time``, the wait for one batch, and ``data_stall``, the share of a loop it takes.

    Batches come from ``loader``, where the author gives one, with its workers and what they fetch ahead;
    what lay ready before is used up first, else seven steps would not find the queue empty. The device is
    idle when a batch is asked for: a copy to it would wait for the step before, which is no waiting for
    data. The stall of an accelerator is what the same steps take longer than with batches that are already
    there, as it may hide the making of a batch behind a step.

    An epoch that ends begins anew, outside of what is read. Absent where epochs are too short for that.
    """
    try:
        source = _open_source(hooks)
        spans = _read_spans(source, training, hooks.device, budget_s)
        stall = _stall(source, training, hooks.device, spans)
    except LoaderEnded as error:
        return dict.fromkeys(("data_time", "data_stall"), Absent(str(error)))
    cpu = tuple(span.waited_cpu_s / span.steps for span in spans)
    own_work = hooks.device.kind == "cpu" and source.is_own_work
    waits = tuple(span.waited_s / span.steps for span in spans)
    return {
        "data_time": Reading(waits, Clock.WALL, source.cycle, cpu=cpu if own_work else ()),
        "data_stall": informational(stall),
    }


def _open_source(hooks: BoundModelHooks) -> BatchSource:
    if hooks.loader is None:
        indices, load_batch = itertools.count(), hooks.require_batch_hook()
        return BatchSource(lambda: load_batch(next(indices)), is_own_work=True)
    loader = EndlessLoader(hooks.loader)
    return BatchSource(
        lambda: move_to_device(next(loader), hooks.device),
        is_own_work=loader.workers == 0,
        cycle=max(1, loader.workers or 0),
        prefetch_depth=loader.prefetch_depth,
        count_restarts=lambda: loader.restarts,
    )


def _read_spans(
    source: BatchSource, training: TrainingLoop, device: Device, budget_s: float
) -> list[LoopSpan]:
    """Read whole cycles of steps until there are enough and the time is over."""
    spans: list[LoopSpan] = []
    broken, is_settled, until = 0, False, perf_counter() + budget_s
    while len(spans) * source.cycle < MIN_STEPS or perf_counter() < until:
        restarts = source.count_restarts()
        if is_settled:
            span = _run_steps(source, training, device, source.cycle)
        else:
            _use_up_ready_batches(source, training)
        if source.count_restarts() == restarts:
            spans += [span] if is_settled else []
            is_settled = True
            continue
        is_settled, broken = False, broken + 1
        if broken > MAX_BROKEN_CYCLES:
            break
    if len(spans) * source.cycle < MIN_STEPS:
        needed = source.prefetch_depth + 2 * source.cycle
        raise LoaderEnded(
            f"the loader's epochs are too short to read how long it lets a step wait: {needed} batches are "
            "needed, more of them give a better reading"
        )
    return spans


def _use_up_ready_batches(source: BatchSource, training: TrainingLoop) -> None:
    """Fetch what lay ready without computing, then train for a cycle until the loader has its own pace."""
    for _ in range(source.prefetch_depth):
        source.fetch()
    for _ in range(source.cycle):
        training.train_on_batch(source.fetch())


def _run_steps(source: BatchSource, training: TrainingLoop, device: Device, steps: int) -> LoopSpan:
    span = LoopSpan(steps)
    device.synchronize()
    begin = perf_counter()
    for _ in range(steps):
        wall, cpu = perf_counter(), process_time()
        batch = source.fetch()
        span.waited_s += perf_counter() - wall
        span.waited_cpu_s += process_time() - cpu
        training.train_on_batch(batch)
        device.synchronize()
    span.total_s = perf_counter() - begin
    return span


def _stall(source: BatchSource, training: TrainingLoop, device: Device, spans: list[LoopSpan]) -> float:
    waited_s, total_s = sum(span.waited_s for span in spans), sum(span.total_s for span in spans)
    if device.kind == "cpu":
        return waited_s / total_s
    resident = dataclasses.replace(source, fetch=training.next_resident_batch)
    steps = max(MIN_STEPS, source.cycle)
    resident_s = _time_queued_steps(resident, training, device, steps)
    for _ in range(MAX_BROKEN_CYCLES):
        restarts = source.count_restarts()
        loaded_s = _time_queued_steps(source, training, device, steps)
        if source.count_restarts() == restarts:
            return max(0.0, 1 - resident_s / loaded_s)
        _use_up_ready_batches(source, training)
    return waited_s / total_s


def _time_queued_steps(source: BatchSource, training: TrainingLoop, device: Device, steps: int) -> float:
    """Seconds of steps that are queued one after the other, and waited for together."""
    device.synchronize()
    begin = perf_counter()
    for _ in range(steps):
        training.train_on_batch(source.fetch())
    device.synchronize()
    return perf_counter() - begin
