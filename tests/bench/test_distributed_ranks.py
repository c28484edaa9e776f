"""Ranks of torch.distributed: they meet, the slowest counts, the guilty one is named, and none is left."""

from __future__ import annotations

import functools
import json
import operator
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_device import FakeDevice

from perfci.bench.processes import distributed_ranks
from perfci.bench.processes.collective_counts_and_seconds import DEVICE_EVENT
from perfci.bench.processes.distributed_ranks import missing_ranks_reason, run_ranks, time_ranks

PROBE = Path(__file__).parent / "ranks_probe.py"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
FLOATS = 10 * 4


@pytest.fixture(scope="module")
def probed() -> dict[str, Any]:
    """Every scene once; the environment names an interface that does not exist, since only loopback may be
    used.
    """
    done = subprocess.run(
        [sys.executable, str(PROBE)],
        env={
            **os.environ,
            **ONE_THREAD,
            "GLOO_SOCKET_IFNAME": "nowhere",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def test_forks_ranks_that_reach_each_other(probed: dict[str, Any]) -> None:
    assert probed["why_not_fork"] == ""
    assert probed["results"] == [[0, 2.0], [1, 2.0]]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux has processes stay on a core")
def test_every_rank_stays_on_a_core_of_its_own(probed: dict[str, Any]) -> None:
    cores = sorted(os.sched_getaffinity(0))
    expected = [[cores[0]], [cores[1]]] if len(cores) > 1 else [cores, cores]

    assert probed["cores"] == expected
    assert probed["cores_afterwards"] == cores


def test_every_rank_gets_the_largest_of_each_value(probed: dict[str, Any]) -> None:
    assert probed["slowest"] == [[1.0, 0.0], [1.0, 0.0]]


def test_ranks_take_the_same_steps_and_see_the_same_times(probed: dict[str, Any]) -> None:
    (steps, timing), (others_steps, others_timing) = probed["together"]

    assert steps == others_steps > 0
    assert timing == others_timing


@pytest.mark.parametrize(
    ("message", "operations", "sent_bytes"),
    [
        ("all_reduce", 1, FLOATS),
        ("all_gather", 1, FLOATS),
        ("all_gather_list", 1, FLOATS),
        ("reduce_scatter", 1, 2 * FLOATS),
        ("exchange", 2, FLOATS),
        ("barrier", 0, 0),
    ],
)
def test_counts_the_bytes_a_rank_sends(
    probed: dict[str, Any], message: str, operations: int, sent_bytes: int
) -> None:
    assert [rank[message] for rank in probed["says"]] == [[operations, sent_bytes]] * 2


@pytest.mark.parametrize("message", ["broadcast", "functional_broadcast"])
def test_only_the_source_of_a_broadcast_sends(probed: dict[str, Any], message: str) -> None:
    assert [rank[message] for rank in probed["says"]] == [[1, FLOATS], [1, 0]]


def test_sums_the_seconds_of_collectives(probed: dict[str, Any]) -> None:
    for talking_s, silent_s in probed["talks"]:
        assert talking_s > 0
        assert silent_s == 0


@pytest.mark.parametrize(
    ("kernel", "communicates"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", True),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", True),
        ("nccl:all_reduce", False),  # the span around such a kernel, which would count it twice
        ("void at::native::vectorized_elementwise_kernel<4>", False),
    ],
)
def test_recognises_the_kernels_that_communicate(kernel: str, communicates: bool) -> None:
    assert bool(DEVICE_EVENT.match(kernel)) == communicates


def test_names_the_rank_that_raised(probed: dict[str, Any]) -> None:
    assert probed["fails"] == ["ChildFailed", "rank 1 of 2: ValueError: this rank has a bug"]


def test_names_the_rank_that_crashed(probed: dict[str, Any]) -> None:
    assert probed["crashes"] == ["ChildFailed", "rank 1 of 2: ended by SIGABRT (signal 6)"]


def test_names_first_the_rank_that_the_others_wait_for(probed: dict[str, Any]) -> None:
    kind, reason = probed["hangs"]

    assert kind == "TimeoutError"
    assert "did not end within 8 s: rank 1 of 2 is in hangs (ranks_probe.py:" in reason
    assert "; rank 0 of 2 is in " in reason


def test_leaves_no_process(probed: dict[str, Any]) -> None:
    assert probed["left"] == []


@pytest.mark.skipif(distributed_ranks.fork_unsafe_reason() == "", reason="this process would fork its ranks")
def test_starts_ranks_from_nothing_where_a_fork_would_not_be_faithful() -> None:
    assert run_ranks(operator.pos, 2, timeout_s=120) == [0, 1]


def test_takes_the_device_samples_of_the_slowest_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FakeDevice().install(monkeypatch, "perfci.bench.processes.distributed_ranks")
    monkeypatch.setattr(
        distributed_ranks, "max_over_ranks", lambda *values: tuple(1.5 * value for value in values)
    )

    timing = time_ranks(device.launching(0.004), device=device, number=5, warmup_s=0.1)

    assert timing.device == pytest.approx([0.006] * len(timing.device), rel=1e-3)
    assert timing.is_settled
    assert timing.reading().clock == "device"


def test_waits_for_the_device_once_per_block(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FakeDevice().install(monkeypatch, "perfci.bench.processes.distributed_ranks")
    monkeypatch.setattr(distributed_ranks, "max_over_ranks", lambda *values: values)

    timing = time_ranks(device.launching(0.001), device=device, number=20, warmup_s=0.1)

    assert device.synchronised == len(timing.device) + timing.warmup_calls


def test_does_not_measure_ranks_that_would_share_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})

    reasons = [missing_ranks_reason(world, FakeDevice(kind="cpu")) for world in (1, 2, 4)]

    assert reasons == ["", "", "4 ranks need a core each, and this machine has 2"]


def test_does_not_measure_ranks_that_would_share_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", functools.partial(int, 1))

    assert missing_ranks_reason(1, FakeDevice(kind="cuda")) == ""
    assert (
        missing_ranks_reason(2, FakeDevice(kind="cuda")) == "2 ranks need a GPU each, and this machine has 1"
    )
    assert missing_ranks_reason(1, FakeDevice(kind="mps")) == "this torch has no torch.distributed for mps"
