"""The distributed suite: what its strategies say to each other, and that no wrong number gets a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from fake_device import FakeDevice
from torch._subclasses.fake_tensor import FakeTensorMode

from benchmarks import distributed, ring_attention
from benchmarks.workload_sizes import PARALLEL
from perfci.bench import Absent
from perfci.bench.memory_use.fake_tensors import fake_tensors
from perfci.bench.processes.run_in_child_processes import ChildOutOfMemory
from perfci.model import PerfciError

PROBE = Path(__file__).parent / "distributed_probe.py"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def probed() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(PROBE)],
        env={**os.environ, **ONE_THREAD, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def test_ddp_sends_every_gradient_once(probed: dict[str, Any]) -> None:
    assert probed["ddp"]["communication_bytes"] == [probed["parameter_bytes"]["whole"]]


def test_zero1_sends_gradients_and_the_parameters_a_rank_updates(probed: dict[str, Any]) -> None:
    whole = probed["parameter_bytes"]["whole"]

    (largest,) = probed["zero1"]["communication_bytes"]

    assert 1.5 * whole <= largest < 1.6 * whole  # of two ranks that share the weights about evenly
    assert probed["zero1"]["communication_operations"] > probed["ddp"]["communication_operations"]


def test_fsdp2_gathers_blocks_twice_and_scatters_gradients(probed: dict[str, Any]) -> None:
    whole, blocks = probed["parameter_bytes"]["whole"], probed["parameter_bytes"]["blocks"]

    # Each rank puts its half into a gathering: of everything forward, of the blocks again backward.
    assert probed["fsdp2"]["communication_bytes"] == [whole / 2 + blocks / 2 + whole]


def test_zero1_keeps_half_of_the_optimizer_state(probed: dict[str, Any]) -> None:
    saved = probed["ddp"]["peak_tensor_bytes"][0] - probed["zero1"]["peak_tensor_bytes"][0]

    assert saved == pytest.approx(probed["parameter_bytes"]["whole"], rel=0.1)  # half of AdamW's two moments


def test_reports_how_a_step_scales(probed: dict[str, Any]) -> None:
    assert probed["ddp"]["scaling_efficiency"][0] > 0
    assert len(probed["ddp"]["exposed_communication_time"]) == 1
    assert "has more to compute" in probed["fsdp2"]["exposed_communication_time"]


def test_allocator_peaks_are_absent_without_a_gpu(probed: dict[str, Any]) -> None:
    assert "need a GPU" in probed["ddp"]["peak_allocated_bytes"]
    assert "only a GPU's memory" in probed["ring"]["max_seq_fit"]


def test_rejects_ranks_that_do_not_share_their_gradients(probed: dict[str, Any]) -> None:
    assert probed["unsynchronised"].startswith("ParityFailed: rejected: parity failed: loss at step")


def test_ring_attention_equals_the_attention_of_one_process(probed: dict[str, Any]) -> None:
    part = (
        2 * PARALLEL.heads * PARALLEL.lengths[0] // 2 * PARALLEL.head_width * 4
    )  # keys and values of one rank, fp32

    # Forward sends one part; backward sends it again, and its gradients there and back.
    assert probed["ring"]["communication_bytes"] == [4 * part]


def test_rejects_ring_attention_that_merges_wrongly(probed: dict[str, Any]) -> None:
    assert probed["unweighted"].startswith("ChildFailed: rank ")
    assert "rejected: parity failed: outputs are up to" in probed["unweighted"]


def test_two_ranks_have_the_same_bandwidth_on_the_bus(probed: dict[str, Any]) -> None:
    assert probed["all_reduce"]["bus_bandwidth"] == probed["all_reduce"]["bandwidth"]
    assert probed["all_reduce"]["bandwidth"] == [
        (1 << 16) / seconds for seconds in probed["all_reduce"]["all_reduce_time"]
    ]


@pytest.mark.parametrize("suite", [distributed.DataParallel, distributed.AllReduce])
def test_skips_ranks_that_would_share_a_core(suite: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    parameters = [2 if name == "ranks" else "any" for name in suite.param_names]

    with pytest.raises(NotImplementedError, match="2 ranks need a"):
        suite().setup(*parameters)


@pytest.mark.skipif(torch.cuda.device_count() > 0, reason="there it runs")
def test_skips_context_parallel_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})

    with pytest.raises(NotImplementedError, match="no sharding rule"):
        distributed.RingAttention().setup("context_parallel", 2, 256, "smoke")


def test_reads_the_peak_from_the_allocator_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FakeDevice(stats={"allocated_bytes.all.peak": 123})
    monkeypatch.setattr(distributed, "DEVICE", "cuda")
    monkeypatch.setattr(distributed, "this_device", lambda: device)

    peak = distributed.read_peak_bytes(device.launching(0.1))

    assert (peak, device.peaks_reset, device.synchronised) == (123, 1, 1)
    assert isinstance(distributed.peak_readings(peak)["peak_tensor_bytes"], Absent)


def test_finds_the_longest_sequence_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def run_ranks(
        _: object, ranks: int, implementation: str, world: int, length: int, **options: float
    ) -> None:
        tried.append(length)
        if length > 3000:
            raise ChildOutOfMemory("rank 1 of 2: OutOfMemoryError: CUDA out of memory")

    monkeypatch.setattr(distributed, "run_ranks", run_ranks)

    assert distributed.find_longest_sequence("ring", 2, 256) == 2048
    assert tried == [512, 1024, 2048, 4096]


def test_gpu_attention_accepts_the_blocks_of_the_ring() -> None:
    with FakeTensorMode():
        query, key, value = (torch.empty(1, 3, 64, 16, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        mixed, weight = ring_attention.local_attention(query, key, value, causal=True)
        gradients = ring_attention.local_attention_backward(
            mixed, query, key, value, mixed, weight, causal=True
        )

    assert (mixed.shape, weight.shape, weight.dtype) == (query.shape, query.shape[:3], torch.float32)
    assert [gradient.shape for gradient in gradients] == [query.shape] * 3


def test_the_memory_of_a_long_ring_grows_with_its_length_and_shrinks_with_its_ranks() -> None:
    def counted(length: int, ranks: int) -> dict[str, float]:
        report = distributed.SequenceLengths().measure_lengths(length, ranks, "smoke")
        return {row["name"]: row["samples"][0] for row in report["metrics"]}

    alone, shared, longest = counted(32_768, 1), counted(32_768, 8), counted(1_048_576, 8)

    part = 1 * PARALLEL.heads * (32_768 // 8) * PARALLEL.head_width
    assert alone["communication_bytes"] == 0
    # Keys and values travel in bf16, seven times forward and backward each; their fp32 gradients eight times.
    assert shared["communication_bytes"] == 14 * 2 * part * 2 + 8 * 2 * part * 4
    assert longest["communication_bytes"] == 32 * shared["communication_bytes"]
    assert longest["fake_peak_bytes"] == pytest.approx(32 * shared["fake_peak_bytes"], rel=1e-3)
    assert shared["fake_peak_bytes"] < alone["fake_peak_bytes"] / 4


def test_context_parallel_needs_values_that_fake_tensors_have_not() -> None:
    """Why lengths beyond memory are measured of the ring alone; where this fails, measure both."""
    distributed.join_fake_group(1, 2)

    def attend() -> None:
        whole = [torch.empty(1, 2, 64, 16) for _ in range(3)]
        with distributed.shard_tensors("context_parallel", whole) as (parts, attention):
            attention(*parts)

    try:
        with pytest.raises(PerfciError, match="needs a computed value"), fake_tensors():
            attend()
    finally:
        dist.destroy_process_group()
