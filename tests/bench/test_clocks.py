from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from perfci.bench import cpu_clock, wall_clock
from perfci.bench.timers import timed_blocks


def test_importing_the_room_and_reading_its_clocks_does_not_import_torch() -> None:
    code = "import sys, perfci.bench as b; b.wall_clock(); b.cpu_clock(); sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_wall_clock_waits_for_the_device_before_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    events = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: events.append("synchronised"))
    monkeypatch.setattr(timed_blocks, "perf_counter", lambda: events.append("read") or 7.0)

    assert wall_clock() == 7.0
    assert events == ["synchronised", "read"]


def test_wall_clock_never_starts_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: pytest.fail("CUDA was started"))

    assert wall_clock() <= wall_clock()


def test_cpu_clock_reads_the_time_of_this_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_blocks, "process_time", lambda: 3.0)

    assert cpu_clock() == 3.0
