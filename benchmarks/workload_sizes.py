"""Sizes of the suite: real ones on a GPU, smoke sizes on a CPU and under PERFCI_SMOKE=1.

The name of the sizes is a parameter of every benchmark, so that smoke and real numbers never share a series.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, replace

import torch
from asv_runner.benchmarks.mark import SkipNotImplemented

from perfci.bench.devices.torch_devices import this_device
from perfci.bench.devices.torch_precision_settings import autocast_to


@dataclass(frozen=True)
class Sizes:
    """One model with the work it is given, and how often a process repeats it."""

    name: str
    vocab: int
    width: int
    heads: int
    layers: int
    length: int  # of a training sequence
    batches: list[int]  # sequences of a training step
    prompts: list[int]  # lengths of a prompt
    requests: list[int]  # prompts answered together
    positions: int  # the most tokens a text may have


GPT2 = Sizes(
    name="gpt2-124m",
    vocab=50304,
    width=768,
    heads=12,
    layers=12,
    length=1024,
    batches=[4, 8],
    prompts=[128, 512],
    requests=[1, 8],
    positions=4096,
)
SMOKE = Sizes(
    name="smoke",
    vocab=512,
    width=128,
    heads=4,
    layers=2,
    length=64,
    batches=[4],
    prompts=[32, 128],
    requests=[1, 8],
    positions=256,
)
PRECISIONS = ["fp32", "tf32", "bf16", "fp16"]
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

# device_count asks the driver's management library: unlike is_available it leaves CUDA untouched, so forks
# stay safe.
DEVICE = "cuda" if torch.cuda.device_count() else "cpu"
SIZES = SMOKE if DEVICE == "cpu" or os.environ.get("PERFCI_SMOKE") == "1" else GPT2


PROCESS_START_S = 6.0
"""Seconds until a fresh process has imported torch and started CUDA."""


def declare_cost(*, smoke: float, real: float) -> float:
    """Seconds of one process at these sizes, for the plan of a run (``cost_s``).

    Those of the smoke sizes were measured on two cores. Those of the real ones are estimates for an H200, to
    which the start of the process is added, until a run on the machine replaces them.
    """
    return smoke if SIZES is SMOKE else PROCESS_START_S + real


def seed_and_pin_threads() -> None:
    """Make a process repeatable: one thread, one seed."""
    torch.set_num_threads(1)
    torch.manual_seed(0)


def precision_context(name: str) -> contextlib.AbstractContextManager[object]:
    """Cast a forward pass to fp32, bf16 or fp16."""
    return autocast_to(name, this_device())


def require_dtype(precision: str) -> torch.dtype:
    """Look a type up, or skip the cell where the device cannot compute in it."""
    why = this_device().unsupported_dtype_reason(DTYPES[precision])
    if why is not None:
        raise SkipNotImplemented(why)
    return DTYPES[precision]


@dataclass(frozen=True)
class TrainingSizes:
    """How the training step is varied, and how long one timing of it may take."""

    micro_batches: list[int]  # micro-batches; the largest number is the whole batch
    sweep: list[int]
    sweep_precisions: list[str]
    batch_limit: int
    budget_bytes: int | None  # None tries on the device until memory runs out
    matrix: int  # edge of the float8 product
    tokens: list[int]  # in a batch whose memory is measured
    memory_precisions: list[str]
    budget_s: float
    timing: dict[str, float]


@dataclass(frozen=True)
class LearningSizes:
    """A model small enough to learn a rule while one waits, and how long its losses are compared."""

    model: Sizes
    rate: float
    limit: int
    parity_steps: int
    validated_steps: int  # before a validation loss is read
    seeds: int  # whose median validation loss counts


@dataclass(frozen=True)
class LadderSizes:
    """What an epoch is projected for."""

    epoch_tokens: float


@dataclass(frozen=True)
class Float8Sizes:
    """The model whose loss is compared between float8 and bf16, and after how many steps."""

    model: Sizes
    loss_steps: list[int]


@dataclass(frozen=True)
class GenerationSizes:
    """How many requests a process sends, how long they are, and what may go wrong with them."""

    requests: int
    new_tokens: list[int]
    context: int  # prompt of the comparison of caches
    checked_tokens: int  # tokens for which a cache is compared with none
    sla: dict[str, float]
    tail_requests: int
    tail_tokens: list[int]
    tail_sla: dict[str, float]
    quantised_error: float  # of logits, relative to the largest


@dataclass(frozen=True)
class PipelineSizes:
    """Requests to a whole pipeline: how many, how long, how fast they come, what was promised."""

    requests: int
    new_tokens: int
    served_requests: int
    rates: list[float]  # requests per second
    sla: dict[str, float]


@dataclass(frozen=True)
class AudioSizes:
    """A small model of speech and what it says."""

    model: Sizes
    chunks: list[int]  # tokens decoded together
    texts: list[int]  # length of the prompt
    tokens: int  # of sound
    requests: int


@dataclass(frozen=True)
class ServingFormats:
    """How a model may be served: its number format, what is compiled, and the kernel of attention."""

    precisions: list[str]
    compile: list[bool]
    attentions: list[str]


@dataclass(frozen=True)
class KernelSizes:
    """What attention and the feed-forward part compute alone, and how long one timing of theirs may take."""

    batch: int
    heads: int
    head_width: int
    lengths: list[int]
    precisions: list[str]
    causal: list[bool]
    kv_heads: list[int]
    masked_length: int  # of the sequences that a sparse mask is laid over
    masks: list[str]
    block: int  # edge of a mask's blocks
    tokens: int  # through the feed-forward part
    width: int
    expansions: list[int]
    losses: int  # terms of a loss over K
    classes: int
    timing: dict[str, float]


@dataclass(frozen=True)
class DataSizes:
    """What is loaded, copied, read and prepared before a model sees it."""

    workers: list[int]
    prefetch: list[int]
    loader_batch: int
    loader_steps: int  # per epoch
    step_width: (
        int  # of the network that takes the batches: a step about as long as a few workers need for a batch
    )
    epochs: int
    copy_bytes: int
    file_bytes: int
    readers: list[int]  # of one file at the same time
    packed_bytes: int  # before compression
    documents: int
    notes: int
    timing: dict[str, float]


if SIZES is SMOKE:
    TRAINING = TrainingSizes(
        micro_batches=[1, 4],
        sweep=[1, 8],
        sweep_precisions=["fp32", "bf16"],
        batch_limit=1024,
        budget_bytes=32 << 20,
        matrix=256,
        tokens=[256, 512],
        memory_precisions=["fp32", "bf16", "fp16"],
        budget_s=0.4,
        timing={"warmup_s": 0.1, "budget_s": 0.4},
    )
    LADDER = LadderSizes(epoch_tokens=1e6)
    FLOAT8 = Float8Sizes(model=SMOKE, loss_steps=[20])
    LEARNING = LearningSizes(
        model=replace(SMOKE, vocab=16, width=32, heads=4, layers=1, length=32),
        rate=1e-2,
        limit=400,
        parity_steps=10,
        validated_steps=150,
        seeds=2,
    )
    GENERATION = GenerationSizes(
        requests=8,
        new_tokens=[24],
        context=64,
        checked_tokens=8,
        sla={"ttft": 0.5, "e2el": 2.0},
        tail_requests=662,
        tail_tokens=[4],
        tail_sla={"e2el_p99": 2.0},
        quantised_error=0.05,
    )
    PIPELINE = PipelineSizes(
        requests=8, new_tokens=4, served_requests=64, rates=[20.0], sla={"ttft": 0.2, "e2el_p90": 1.0}
    )
    # inductor takes a minute for a block on two cores: tests compile one, smoke runs do not
    FORMATS = ServingFormats(["fp32", "bf16"], [False], ["automatic", "math"])
    AUDIO = AudioSizes(model=SMOKE, chunks=[6, 24], texts=[16], tokens=48, requests=6)
    KERNELS = KernelSizes(
        batch=2,
        heads=4,
        head_width=32,
        lengths=[160],
        precisions=["fp32"],
        causal=[True],
        kv_heads=[4, 2, 1],
        masked_length=160,
        masks=["window-32", "blocks-50", "blocks-75", "blocks-90"],
        block=16,
        tokens=64,
        width=192,
        expansions=[4],
        losses=8,
        classes=256,
        timing={"warmup_s": 0.05, "budget_s": 0.25},
    )
    DATA = DataSizes(
        workers=[0, 2],
        prefetch=[2],
        loader_batch=8,
        loader_steps=16,
        step_width=768,
        epochs=4,
        copy_bytes=8 << 20,
        file_bytes=8 << 20,
        readers=[1, 4],
        packed_bytes=1 << 18,
        documents=8,
        notes=2000,
        timing={"warmup_s": 0.05, "budget_s": 0.25},
    )
else:
    TRAINING = TrainingSizes(
        micro_batches=[1, 4, 8],
        sweep=[1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
        sweep_precisions=["bf16"],
        batch_limit=4096,
        budget_bytes=None,
        matrix=8192,
        tokens=[4096, 8192],
        memory_precisions=["fp32", "bf16", "fp16"],
        budget_s=2.0,
        timing={},
    )
    LADDER = LadderSizes(epoch_tokens=9.04e9)  # of OpenWebText, by nanoGPT's data/openwebtext
    FLOAT8 = Float8Sizes(model=GPT2, loss_steps=[100, 1000])
    LEARNING = LearningSizes(
        model=replace(GPT2, vocab=64, width=128, heads=4, layers=4, length=64),
        rate=3e-3,
        limit=2000,
        parity_steps=200,
        validated_steps=300,
        seeds=3,
    )
    GENERATION = GenerationSizes(
        requests=64,
        new_tokens=[128, 512, 1024, 2048],
        context=512,
        checked_tokens=16,
        sla={"ttft": 0.2, "e2el_p90": 2.0},
        tail_requests=662,
        tail_tokens=[128, 512],
        tail_sla={"e2el_p99": 2.0},
        quantised_error=0.05,
    )
    PIPELINE = PipelineSizes(
        requests=64, new_tokens=32, served_requests=662, rates=[1.0, 4.0], sla={"ttft": 0.2, "e2el_p90": 2.0}
    )
    FORMATS = ServingFormats(["fp32", "bf16", "fp16"], [False, True], ["automatic", "math", "flash"])
    AUDIO = AudioSizes(model=GPT2, chunks=[8, 25, 75], texts=[64, 256], tokens=150, requests=64)
    KERNELS = KernelSizes(
        batch=8,
        heads=12,
        head_width=64,
        lengths=[512, 2048, 8192],
        precisions=["bf16"],
        causal=[True, False],
        kv_heads=[12, 4, 1],
        masked_length=8192,
        masks=["window-128", "window-512", "blocks-50", "blocks-75", "blocks-90"],
        block=128,
        tokens=8192,
        width=768,
        expansions=[3, 4],
        losses=16,
        classes=8192,
        timing={},
    )
    DATA = DataSizes(
        workers=[0, 2, 4, 8],
        prefetch=[2, 4],
        loader_batch=32,
        loader_steps=100,
        step_width=16384,
        epochs=5,
        copy_bytes=256 << 20,
        file_bytes=1 << 30,
        readers=[1, 4, 8],
        packed_bytes=32 << 20,
        documents=500,
        notes=100_000,
        timing={},
    )


@dataclass(frozen=True)
class ParallelSizes:
    """What several ranks do together; every rank has a core or a GPU of its own."""

    model: Sizes
    precision: str
    rank_counts: list[int]
    rows: (
        int  # sequences per rank where the work grows with the ranks, of all ranks together where it does not
    )
    parity_steps: int
    reduced_bytes: list[int]
    heads: int
    head_width: int
    lengths: list[int]  # of the sequences that the ranks of a ring share
    timing: dict[str, float]
    timeout_s: float


@dataclass(frozen=True)
class CompileSizes:
    """Sizes of compilations: by inductor of a whole model where time allows, by dynamo alone everywhere."""

    model: Sizes
    whole_model: bool  # else inductor compiles one linear layer and a GELU: ten seconds and not 70
    lengths: list[int]  # of sequences that come one after another
    cap_s: float  # for one compilation
    timing: dict[str, float]


if SIZES is SMOKE:
    PARALLEL = ParallelSizes(
        model=replace(SMOKE, vocab=512, width=128, heads=4, layers=2, length=64),
        precision="fp32",
        rank_counts=[2],
        rows=4,
        parity_steps=3,
        reduced_bytes=[1 << 20],
        heads=4,
        head_width=32,
        lengths=[256],
        timing={"warmup_s": 0.1, "budget_s": 0.3},
        timeout_s=60,
    )
    COMPILED = CompileSizes(
        model=replace(SMOKE, vocab=256, width=64, heads=2, layers=1, length=32),
        whole_model=False,
        lengths=[16, 24, 32],
        cap_s=120,
        timing={"warmup_s": 0.1, "budget_s": 0.2},
    )
else:
    PARALLEL = ParallelSizes(
        model=GPT2,
        precision="bf16",
        rank_counts=[1, 2, 4, 8],
        rows=8,
        parity_steps=3,
        reduced_bytes=[1 << 20, 16 << 20, 256 << 20],
        heads=32,
        head_width=128,
        lengths=[32768, 131072],
        timing={"warmup_s": 3.0, "budget_s": 10.0},
        timeout_s=300,
    )
    COMPILED = CompileSizes(
        model=GPT2,
        whole_model=True,
        lengths=[512, 768, 1024],
        cap_s=600,
        timing={},
    )
