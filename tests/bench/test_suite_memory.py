"""The memory suite measures one model at a time."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest

from perfci.bench import Measurement, Reading
from perfci.bench.timers.timed_blocks import Timing

ROOT = Path(__file__).parents[2]


def test_one_model_is_alive_while_the_allocators_peaks_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import memory

    models: WeakSet[Any] = WeakSet()
    alive = []

    class Watched(memory.TrainingSetup):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            models.add(self.model)

    def count_models(*_: Any) -> dict[str, Reading]:
        gc.collect()  # as the true one does
        alive.append(len(models))
        return {}

    monkeypatch.setattr(memory, "TrainingSetup", Watched)
    monkeypatch.setattr(memory, "allocator_readings", count_models)
    monkeypatch.setattr(
        memory, "time_blocks", lambda *_, **__: Timing((1.0,), (1.0,), (), 1, 1, is_settled=True)
    )
    measure = memory.Checkpointing.measure_checkpointing.__wrapped__

    measured: Measurement = measure(memory.Checkpointing(), 256, "fp32", "full", "smoke")

    assert alive == [1]
    assert measured.readings["recompute_overhead"].samples[0] > 0
