"""What torch.compile costs and gives: cold and warm, by mode; graph breaks and recompiles; CUDA graphs."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfci.bench import Absent, Bench, Measurement, Metric, Reading, exact, informational, metrics
from perfci.bench.compilers.compile_cost import compile_in_this_process, compile_twice
from perfci.bench.devices.torch_devices import this_device
from perfci.bench.parity import NumericsRecord, check_parity, default_tolerance
from perfci.bench.timers.timed_blocks import time_blocks

from .gpt_model import GPT
from .workload_sizes import COMPILED, DEVICE, SIZES, declare_cost, precision_context, seed_and_pin_threads

Pool = tuple[int, int]

WARMUP_STEPS = 3
LAUNCH_BOUND = replace(SIZES, width=128, heads=4, layers=12, length=64, vocab=1024)
PRECISION = "fp32" if DEVICE == "cpu" else "bf16"
GPU_ONLY_REASONS = {
    "reduce-overhead": (
        "reduce-overhead records CUDA graphs, and there is no GPU: on a CPU it is the default mode"
    ),
    "max-autotune": "max-autotune tries kernels out on a GPU, and there is none",
}
NOT_COMPILED = Absent("eager mode compiles nothing")


class Compile(Bench):
    """Inductor in its modes: seconds until nothing is compiled any more, and the step that this buys.

    At smoke sizes one linear layer and a GELU stand for the model: a whole GPT takes a minute on two cores.
    """

    cost_s = declare_cost(smoke=38.7, real=240)
    default_suite = False
    params = (["eager", "default", "reduce-overhead", "max-autotune"], [SIZES.name])
    param_names = ("mode", "sizes")
    timeout = 2 * COMPILED.cap_s + 60

    def setup(self, mode: str, sizes: str) -> None:
        if DEVICE == "cpu" and mode in GPU_ONLY_REASONS:
            raise NotImplementedError(GPU_ONLY_REASONS[mode])

    @metrics(
        Metric("compile_cold", "seconds"),
        Metric("compile_warm", "seconds"),
        Metric("step_time", "seconds"),
        Metric("speedup_vs_eager", "ratio", "higher"),
        Metric("graph_breaks", "count"),
        Metric("recompiles", "count"),
        Metric("generated_kernels", "count"),
        Metric("warm_cache_misses", "count"),
    )
    def measure_compile(self, mode: str, sizes: str) -> Measurement:
        if mode == "eager":
            alone = time_blocks(build_step("eager"), **COMPILED.timing)
            names = [metric.name for metric in Compile.measure_compile.metrics]
            return Measurement(
                {**dict.fromkeys(names, NOT_COMPILED), "step_time": alone.reading()}, alone.flags
            )
        cold, warm = compile_twice(build_step, mode, cap_s=COMPILED.cap_s, timing=COMPILED.timing)
        eager = build_step("eager")
        check_parity(
            NumericsRecord((cold.value,)), NumericsRecord((float(eager()),)), default_tolerance(PRECISION)
        )
        alone, step = time_blocks(eager, **COMPILED.timing), cold.timing
        readings = {
            "compile_cold": cold.reading(),
            "compile_warm": warm.reading(),
            "step_time": step.reading(),
            "speedup_vs_eager": informational(
                statistics.median(alone.judged_samples) / statistics.median(step.judged_samples)
            ),
            "graph_breaks": exact(cold.graph_breaks),
            "recompiles": exact(cold.recompiles),
            "generated_kernels": exact(cold.generated_kernels),
            "warm_cache_misses": exact(warm.cache_misses),
        }
        return Measurement(readings, (*step.flags, f"kernels: {cold.fingerprint}"))


def build_step(mode: str) -> Callable[[], Tensor]:
    """A training step without its optimizer, or one block's forward pass, compiled in this mode."""
    seed_and_pin_threads()
    compiled: Any = (
        (lambda function: function) if mode == "eager" else functools.partial(torch.compile, mode=mode)
    )
    return build_training_step(compiled) if COMPILED.whole_model else build_block_step(compiled)


def build_training_step(compile_function: Callable[[Any], Any]) -> Callable[[], Tensor]:
    model, text = create_gpt(), random_texts(COMPILED.model.length)
    loss_of = compile_function(functools.partial(loss, model))

    def step() -> Tensor:
        model.zero_grad(set_to_none=True)
        with precision_context(PRECISION):  # entered outside: dynamo breaks its graph where autocast begins
            loss_value: Tensor = loss_of(text)
        loss_value.backward()
        return loss_value.detach()

    return step


def build_block_step(compile_function: Callable[[Any], Any]) -> Callable[[], Tensor]:
    width = COMPILED.model.width
    network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh")).to(DEVICE)
    forward = compile_function(network)
    x = torch.randn(COMPILED.model.length, width, device=DEVICE)

    @torch.no_grad()
    def step() -> Tensor:
        return forward(x).square().mean()

    return step


def create_gpt() -> GPT:
    return GPT(COMPILED.model).to(DEVICE)


def random_texts(length: int) -> Tensor:
    return torch.randint(COMPILED.model.vocab, (2, length + 1), device=DEVICE)


def loss(model: nn.Module, text: Tensor) -> Tensor:
    return functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())


class FrontEnd(Bench):
    """Compiling without inductor, which needs no compiler: dynamo alone, and dynamo with AOT autograd."""

    cost_s = declare_cost(smoke=1.9, real=20)
    default_suite = {"backend": ["aot_eager"]}
    params = (["eager", "aot_eager"], [SIZES.name])
    param_names = ("backend", "sizes")

    @metrics(
        Metric("compile_time", "seconds"),
        Metric("graph_breaks", "count"),
        Metric("recompiles", "count"),
        Metric("graphs", "count"),
    )
    def measure_front_end(self, backend: str, sizes: str) -> dict[str, Reading]:
        compiled = compile_in_this_process(
            build_front_end_step, backend, None, [COMPILED.model.length], warm_backend=backend
        )
        return {
            "compile_time": compiled.reading(),
            "graph_breaks": exact(compiled.graph_breaks),
            "recompiles": exact(compiled.recompiles),
            "graphs": exact(compiled.graphs),
        }


class Lengths(Bench):
    """Sequences of several lengths: compiled for each, or once for all of them.

    ``automatic`` is torch's default: a length that changes makes it dynamic, for the price of one
    recompilation.
    """

    cost_s = declare_cost(smoke=2.4, real=30)
    default_suite = False
    params = (["automatic", "static", "dynamic"], [SIZES.name])
    param_names = ("shapes", "sizes")

    @metrics(
        Metric("compile_time", "seconds"),
        Metric("graph_breaks", "count"),
        Metric("recompiles", "count"),
        Metric("graphs", "count"),
    )
    def measure_lengths(self, shapes: str, sizes: str) -> dict[str, Reading]:
        dynamic = {"automatic": None, "static": False, "dynamic": True}[shapes]
        compiled = compile_in_this_process(build_front_end_step, "eager", dynamic, COMPILED.lengths)
        return {
            "compile_time": compiled.reading(),
            "graph_breaks": exact(compiled.graph_breaks),
            "recompiles": exact(compiled.recompiles),
            "graphs": exact(compiled.graphs),
        }


def build_front_end_step(backend: str, dynamic: bool | None, lengths: list[int]) -> Callable[[], Tensor]:
    """Forward and backward of the model's loss, over texts of these lengths one after another."""
    seed_and_pin_threads()
    model = create_gpt()
    loss_of = torch.compile(functools.partial(loss, model), backend=backend, dynamic=dynamic)
    batches = [random_texts(length) for length in lengths]

    def step() -> Tensor:
        model.zero_grad(set_to_none=True)
        for text in batches:
            loss_value: Tensor = loss_of(text)
            loss_value.backward()
        return loss_value.detach()

    return step


class CudaGraphs(Bench):
    """A step bound by kernel launches: launched one by one, or replayed from a CUDA graph.

    ``make_graphed_callables`` records forward and backward of the model, ``capture`` the whole step as one
    graph.
    """

    cost_s = declare_cost(smoke=0.5, real=12)
    default_suite = {"way": ["capture"]}
    params = (["launched", "make_graphed_callables", "capture"], [SIZES.name])
    param_names = ("way", "sizes")

    def setup(self, way: str, sizes: str) -> None:
        if this_device().kind not in ("cuda", "rocm"):
            raise NotImplementedError("CUDA graphs need an NVIDIA or AMD GPU, and torch sees none")

    @metrics(Metric("step_time", "seconds"), Metric("host_time", "seconds"), Metric("memory_pool", "bytes"))
    def measure_replay(self, way: str, sizes: str) -> Measurement:
        seed_and_pin_threads()
        launched = LaunchBoundStep()
        reference = float(launched.step())
        step, pool = LAUNCH_METHODS[way](launched)
        check_parity(
            NumericsRecord((float(step()),)), NumericsRecord((reference,)), default_tolerance("fp32")
        )
        timing = time_blocks(step, **COMPILED.timing)
        readings = {
            "step_time": timing.reading(),
            "host_time": informational(*timing.wall),
            "memory_pool": exact(pool_bytes(pool))
            if pool
            else Absent("nothing is recorded, so that no pool is kept"),
        }
        return Measurement(readings, timing.flags)


class LaunchBoundStep:
    """Forward and backward of a narrow model on one row: kernels end sooner than the host launches them."""

    def __init__(self) -> None:
        self.model = GPT(LAUNCH_BOUND).to(DEVICE)
        self.tokens = torch.randint(LAUNCH_BOUND.vocab, (1, LAUNCH_BOUND.length + 1), device=DEVICE)

    def step(self) -> Tensor:
        self.model.zero_grad(set_to_none=True)
        loss_value = loss(self.model, self.tokens)
        loss_value.backward()
        return loss_value.detach()


def capture_graph(step: LaunchBoundStep) -> tuple[Callable[[], Tensor], Pool]:
    """Record the whole step; gradients stay where the recording puts them (torch's notes on CUDA graphs)."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(WARMUP_STEPS):
            step.step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss_value = step.step()

    def replay() -> Tensor:
        graph.replay()
        return loss_value

    return replay, graph.pool()


def graph_callables(step: LaunchBoundStep) -> tuple[Callable[[], Tensor], Pool]:
    pool = torch.cuda.graph_pool_handle()
    sample = (step.tokens[:, :-1].clone(),)
    step.model = torch.cuda.make_graphed_callables(
        step.model, sample, num_warmup_iters=WARMUP_STEPS, pool=pool
    )
    return step.step, pool


def pool_bytes(pool: Pool) -> int:
    """What the recording keeps for itself: segments that nobody else may use."""
    segments = torch.cuda.memory_snapshot()
    return int(
        sum(segment["total_size"] for segment in segments if tuple(segment["segment_pool_id"]) == tuple(pool))
    )


LAUNCH_METHODS: dict[str, Callable[[LaunchBoundStep], tuple[Callable[[], Tensor], Pool | None]]] = {
    "launched": lambda launched: (launched.step, None),
    "make_graphed_callables": graph_callables,
    "capture": capture_graph,
}
