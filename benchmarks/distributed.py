"""Several ranks of torch.distributed: training strategies and how they scale, ring attention, all-reduce.

gloo where there is no GPU, NCCL where there are. Every rank has a core or a GPU of its own: more ranks than
that would measure contention, and are skipped.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from perfci.bench import Absent, Bench, Clock, Measurement, Metric, Reading, exact, informational, metrics
from perfci.bench.devices.torch_devices import this_device
from perfci.bench.memory_use.fake_tensors import fake_tensors
from perfci.bench.memory_use.peak_memory import fake_peak_bytes, peak_tensor_bytes
from perfci.bench.parity import NumericsRecord, ParityFailed, check_parity, default_tolerance
from perfci.bench.processes.collective_counts_and_seconds import CommunicationCounter, communication_seconds
from perfci.bench.processes.distributed_ranks import missing_ranks_reason, run_ranks, time_ranks
from perfci.bench.processes.run_in_child_processes import ChildOutOfMemory
from perfci.bench.timers.timed_blocks import Timing

from .parallel_strategies import Replica, batch_rows
from .ring_attention import ring_attention
from .workload_sizes import DEVICE, DTYPES, PARALLEL, SIZES, declare_cost

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]

PARITY_LENGTH = 64  # tokens per rank
MAX_LENGTH = 1 << 22
GPU_ONLY_READING = Absent("the allocator's peaks need a GPU; see peak_tensor_bytes")
CPU_ONLY_READING = Absent("operators are watched on a CPU only; see peak_allocated_bytes")


class _RankedBench(Bench):
    """Skips what this machine has not the cores or GPUs for."""

    timeout = 3 * PARALLEL.timeout_s + 60

    def cost_s(self, p: Mapping[str, Any]) -> float:
        """Every group of ranks starts anew; where there are too few places the cell is skipped at once."""
        if missing_ranks_reason(p["ranks"]):
            return declare_cost(smoke=0.5, real=1)
        return declare_cost(smoke=5, real=50)

    def setup(self, *parameters: object) -> None:
        reason = missing_ranks_reason(self.rank_count(*parameters))
        if reason:
            raise NotImplementedError(reason)

    def rank_count(self, *parameters: object) -> int:
        return int(dict(zip(self.param_names, parameters, strict=True))["ranks"])


class DataParallel(_RankedBench):
    """A training step of all ranks, and one rank alone in the same minute as the reference of its scaling.

    ``weak``: every rank has as many rows as the one alone. ``strong``: they share the rows of the one alone.
    """

    default_suite = {"strategy": ["ddp"], "scaling": ["strong"], "ranks": PARALLEL.rank_counts[:2][-1:]}
    params = (["ddp", "zero1", "fsdp2"], ["weak", "strong"], PARALLEL.rank_counts, [SIZES.name])
    param_names = ("strategy", "scaling", "ranks", "sizes")

    @metrics(
        Metric("step_time", "seconds"),
        Metric("reference_step_time", "seconds"),
        Metric("scaling_efficiency", "ratio", "higher"),
        Metric("exposed_communication_time", "seconds"),
        Metric("communication_time", "seconds"),
        Metric("communication_operations", "count"),
        Metric("communication_bytes", "bytes"),
        Metric("peak_tensor_bytes", "bytes"),
        Metric("peak_allocated_bytes", "bytes"),
        Metric("tokens_per_s_per_rank", "tokens/s", "higher"),
    )
    def measure_training(self, strategy: str, scaling: str, ranks: int, sizes: str) -> Measurement:
        rows = PARALLEL.rows if scaling == "weak" else max(1, PARALLEL.rows // ranks)
        reference = run_ranks(train_rank, 1, "alone", PARALLEL.rows, ranks, 1, timeout_s=PARALLEL.timeout_s)[
            0
        ]
        trained = run_ranks(train_rank, ranks, strategy, rows, 1, ranks, timeout_s=PARALLEL.timeout_s)
        check_parity(
            NumericsRecord(mean_losses(trained)), reference.numerics, default_tolerance(PARALLEL.precision)
        )
        step, alone = trained[0].timing, reference.timing
        share = 1 if scaling == "weak" else ranks
        readings = {
            "step_time": step.reading(),
            "reference_step_time": alone.reading(),
            "scaling_efficiency": informational(median_seconds(alone) / share / median_seconds(step)),
            "exposed_communication_time": exposed_communication(step, alone, scaling),
            "communication_time": communication_reading(trained),
            "communication_operations": exact(max(rank.operations for rank in trained)),
            "communication_bytes": exact(max(rank.sent_bytes for rank in trained)),
            **peak_readings(max(rank.peak_bytes for rank in trained)),
            "tokens_per_s_per_rank": informational(
                *(rows * PARALLEL.model.length / second for second in step.elapsed_samples)
            ),
        }
        return Measurement(readings, flags=(*step.flags, *alone.flags))


@dataclass(frozen=True)
class RankTraining:
    """What one rank saw."""

    numerics: NumericsRecord
    timing: Timing
    operations: int
    sent_bytes: int
    communicating_s: float
    peak_bytes: int


def train_rank(rank: int, strategy: str, rows: int, parity_rows: int, ranks: int) -> RankTraining:
    """Train a few steps to see that the numbers are right, then measure memory, messages and time."""
    peak = read_peak_bytes(lambda: train_steps(Replica(strategy), batch_rows(rank, rows, ranks)))
    replica = Replica(strategy)
    losses = train_steps(replica, batch_rows(rank, parity_rows, ranks))
    text = batch_rows(rank, rows, ranks)
    with CommunicationCounter() as counter:
        replica.step(text)
    timing = time_ranks(lambda: replica.step(text), **PARALLEL.timing)
    seconds = communication_seconds(lambda: replica.step(text))
    return RankTraining(NumericsRecord(losses), timing, counter.operations, counter.sent_bytes, seconds, peak)


def train_steps(replica: Replica, text: Tensor) -> tuple[float, ...]:
    return tuple(float(replica.step(text)) for _ in range(PARALLEL.parity_steps))


def read_peak_bytes(work: Callable[[], object]) -> int:
    """Bytes of tensors on a CPU, what the allocator handed out on a GPU."""
    if DEVICE == "cpu":
        return peak_tensor_bytes(work)
    device = this_device()
    device.reset_peak_memory()
    work()
    device.synchronize()
    return (device.memory_stats() or {})["allocated_bytes.all.peak"]


def peak_readings(peak_bytes: int) -> dict[str, Reading | Absent]:
    if DEVICE == "cpu":
        return {"peak_tensor_bytes": exact(peak_bytes), "peak_allocated_bytes": GPU_ONLY_READING}
    return {
        "peak_tensor_bytes": CPU_ONLY_READING,
        "peak_allocated_bytes": Reading((float(peak_bytes),), Clock.VALUE),
    }


def mean_losses(trained: list[RankTraining]) -> tuple[float, ...]:
    """The loss of the whole batch: ranks have equal shares of it."""
    return tuple(map(statistics.fmean, zip(*(rank.numerics.losses for rank in trained), strict=True)))


def median_seconds(timing: Timing) -> float:
    return statistics.median(timing.elapsed_samples)


def exposed_communication(step: Timing, reference: Timing, scaling: str) -> Reading | Absent:
    """What a step takes longer than the same work of one rank alone: communication that nothing hides."""
    if scaling == "strong":
        return Absent("the rank alone has more to compute than each of those that share its rows")
    return informational(median_seconds(step) - median_seconds(reference))


def communication_reading(trained: list[RankTraining]) -> Reading:
    """Of the slowest rank; over gloo it is mostly waiting for host threads, so it is informational."""
    seconds = max(rank.communicating_s for rank in trained)
    return informational(seconds) if DEVICE == "cpu" else Reading((seconds,), Clock.DEVICE)


class RingAttention(_RankedBench):
    """Forward and backward of causal attention over a sequence that ranks share, against one rank alone.

    ``scaling_efficiency`` is the time of one rank that has the whole sequence, over the time of all ranks
    together: what is lost goes into messages and into waiting for the last rank, which computes most.
    """

    default_suite = {
        "implementation": ["ring"],
        "ranks": PARALLEL.rank_counts[:2][-1:],
        "length": PARALLEL.lengths[:1],
    }
    params = (["ring", "context_parallel"], PARALLEL.rank_counts, PARALLEL.lengths, [SIZES.name])
    param_names = ("implementation", "ranks", "length", "sizes")

    def setup(self, implementation: str, ranks: int, length: int, sizes: str) -> None:
        super().setup(implementation, ranks, length, sizes)
        if implementation == "context_parallel" and DEVICE == "cpu":
            raise NotImplementedError(
                "torch's context_parallel has no sharding rule for the attention of CPUs"
            )

    @metrics(
        Metric("step_time", "seconds"),
        Metric("reference_step_time", "seconds"),
        Metric("scaling_efficiency", "ratio", "higher"),
        Metric("communication_bytes", "bytes"),
        Metric("peak_tensor_bytes", "bytes"),
        Metric("peak_allocated_bytes", "bytes"),
        Metric("max_seq_fit", "count", "higher"),
    )
    def measure_ring(self, implementation: str, ranks: int, length: int, sizes: str) -> Measurement:
        limit = {"timeout_s": PARALLEL.timeout_s}
        run_ranks(check_rank_attention, ranks, implementation, ranks, **limit)
        (alone,) = run_ranks(record_rank_attention, 1, "ring", 1, length, **limit)
        attended = run_ranks(record_rank_attention, ranks, implementation, ranks, length, **limit)
        timing = attended[0].timing
        readings = {
            "step_time": timing.reading(),
            "reference_step_time": alone.timing.reading(),
            "scaling_efficiency": informational(
                median_seconds(alone.timing) / ranks / median_seconds(timing)
            ),
            "communication_bytes": exact(max(rank.sent_bytes for rank in attended)),
            **peak_readings(max(rank.peak_bytes for rank in attended)),
            "max_seq_fit": exact(find_longest_sequence(implementation, ranks, length))
            if DEVICE == "cuda"
            else Absent("only a GPU's memory has an end"),
        }
        return Measurement(readings, flags=timing.flags)


class SequenceLengths(Bench):
    """Memory and messages of the last rank of a ring at lengths that no machine here holds: fake tensors.

    Nothing is computed, sent or allocated: every operator runs on shapes alone, in one process that stands
    for the rank. So the counts are exact, and equal on a laptop and on a node of GPUs.
    """

    cost_s = declare_cost(smoke=0.4, real=5)
    default_suite = {"length": [1_048_576], "ranks": [8]}
    params = ([32_768, 131_072, 1_048_576], [1, 8], [SIZES.name])
    param_names = ("length", "ranks", "sizes")

    @metrics(
        Metric("fake_peak_bytes", "bytes"),
        Metric("communication_bytes", "bytes"),
        Metric("communication_operations", "count"),
    )
    def measure_lengths(self, length: int, ranks: int, sizes: str) -> dict[str, Reading]:
        join_fake_group(ranks - 1, ranks)
        shape = (1, PARALLEL.heads, length // ranks, PARALLEL.head_width)

        def attend_on_shapes() -> None:
            parts = [torch.empty(shape, dtype=torch.bfloat16) for _ in range(4)]
            run_attention(parts, ring_attention)

        peak = fake_peak_bytes(attend_on_shapes)
        with fake_tensors(), CommunicationCounter() as counter:
            attend_on_shapes()
        dist.destroy_process_group()
        return {
            "fake_peak_bytes": exact(peak),
            "communication_bytes": exact(counter.sent_bytes),
            "communication_operations": exact(counter.operations),
        }


def join_fake_group(rank: int, ranks: int) -> None:
    """Become one rank of a group whose messages go nowhere (torch's backend ``fake``)."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=rank, world_size=ranks, store=FakeStore())


@dataclass(frozen=True)
class RankAttention:
    """What one rank saw."""

    timing: Timing
    sent_bytes: int
    peak_bytes: int


def check_rank_attention(rank: int, implementation: str, ranks: int) -> None:
    """Compare this rank's part of the result and of the gradients with those of a single process."""
    torch.manual_seed(0)
    whole = [random_tokens(PARITY_LENGTH * ranks) for _ in range(4)]
    mixed, *gradients = run_attention(whole, whole_attention)
    with shard_tensors(implementation, [*whole, mixed, *gradients]) as (parts, attention):
        actual, expected = run_attention(parts[:4], attention), parts[4:]
        for result, reference in zip(actual, expected, strict=True):
            check_parity(
                NumericsRecord((), outputs=result),
                NumericsRecord((), outputs=reference),
                default_tolerance(reference.dtype),
            )


def record_rank_attention(rank: int, implementation: str, ranks: int, length: int) -> RankAttention:
    """Time attention on one rank, and read its peak memory and the bytes it sent."""
    torch.manual_seed(rank)
    with shard_tensors(implementation, [length_placeholder(length)]) as (_, attention):
        parts = [random_tokens(length // ranks) for _ in range(4)]
        peak = read_peak_bytes(lambda: run_attention(parts, attention))
        with CommunicationCounter() as counter:
            run_attention(parts, attention)
        return RankAttention(
            time_ranks(lambda: run_attention(parts, attention), **PARALLEL.timing), counter.sent_bytes, peak
        )


def find_longest_sequence(implementation: str, ranks: int, length: int) -> int:
    """Find the longest sequence that fits the memory of all ranks, by doubling it in new processes."""
    while 2 * length <= MAX_LENGTH:
        try:
            run_ranks(
                run_rank_attention, ranks, implementation, ranks, 2 * length, timeout_s=PARALLEL.timeout_s
            )
        except ChildOutOfMemory:
            break
        length *= 2
    return length


def run_rank_attention(rank: int, implementation: str, ranks: int, length: int) -> None:
    with shard_tensors(implementation, [length_placeholder(length)]) as (_, attention):
        run_attention([random_tokens(length // ranks) for _ in range(4)], attention)
        this_device().synchronize()


@contextmanager
def shard_tensors(implementation: str, whole: list[Tensor]) -> Iterator[tuple[list[Tensor], Attention]]:
    """Yield this rank's shards of tensors (batch, heads, length, width), and attention over all shards."""
    if implementation == "ring":
        rank, ranks = dist.get_rank(), dist.get_world_size()
        yield [tensor.chunk(ranks, dim=2)[rank].contiguous() for tensor in whole], ring_attention
        return
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel
    from torch.nn.attention import SDPBackend, sdpa_kernel

    mesh = init_device_mesh(DEVICE, (dist.get_world_size(),))
    cut = {"buffers": whole, "buffer_seq_dims": [2] * len(whole), "no_restore_buffers": set(whole)}
    with context_parallel(mesh, **cut), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        yield whole, whole_attention


def whole_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Looked up when it is called: context_parallel puts its own function in this place."""
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def run_attention(parts: list[Tensor], attention: Attention) -> list[Tensor]:
    """Forward and backward: the result and the gradients of query, key and value."""
    *given, gradient = parts
    leaves = [tensor.detach().requires_grad_() for tensor in given]
    mixed = attention(*leaves)
    return [mixed.detach(), *torch.autograd.grad(mixed, leaves, gradient)]


def random_tokens(length: int) -> Tensor:
    dtype = DTYPES["fp32" if DEVICE == "cpu" else "bf16"]  # flash attention on a GPU knows 16 bits only
    return torch.randn(1, PARALLEL.heads, length, PARALLEL.head_width, dtype=dtype, device=DEVICE)


def length_placeholder(length: int) -> Tensor:
    """A sequence that takes hardly any memory, to tell how long the real ones are."""
    return torch.empty(1, 1, length, 1, device=DEVICE)


class AllReduce(_RankedBench):
    """What every data-parallel step pays for: the sum of one tensor over all ranks.

    Bandwidths are those of nccl-tests (doc/PERFORMANCE.md): ``bandwidth`` is bytes over time,
    ``bus_bandwidth`` that times 2 (n - 1) / n, which can be compared with a link's for any number of ranks.
    """

    default_suite = False
    params = (PARALLEL.reduced_bytes, PARALLEL.rank_counts, [SIZES.name])
    param_names = ("bytes", "ranks", "sizes")

    @metrics(
        Metric("all_reduce_time", "seconds"),
        Metric("bandwidth", "bytes/s", "higher"),
        Metric("bus_bandwidth", "bytes/s", "higher"),
    )
    def measure_all_reduce(self, size: int, ranks: int, sizes: str) -> Measurement:
        timing = run_ranks(run_all_reduce, ranks, size, ranks, timeout_s=PARALLEL.timeout_s)[0]
        seconds = timing.device or timing.wall
        readings = {
            "all_reduce_time": timing.reading(),
            "bandwidth": informational(*(size / second for second in seconds)),
            "bus_bandwidth": informational(*(size / second * 2 * (ranks - 1) / ranks for second in seconds)),
        }
        return Measurement(readings, flags=timing.flags)


def run_all_reduce(rank: int, size: int, ranks: int) -> Timing:
    summed = torch.full((size // 4,), float(rank + 1), device=DEVICE)
    dist.all_reduce(summed)
    if not bool((summed == ranks * (ranks + 1) / 2).all()):
        raise ParityFailed(f"the sum over {ranks} ranks is wrong")
    summed.zero_()
    return time_ranks(lambda: dist.all_reduce(summed), **PARALLEL.timing)
