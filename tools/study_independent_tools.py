"""Hold what benchmarks of models report against independent tools, on the same model and in the same minute.

The figures are in docs/measuring.md. Ours and theirs take turns, so that a machine that changes its mood does
so to both; the median of the ratios counts. Turns of times are as short as a block or a request: perfci
offers one before each of its own, as to the other process of a pair, and the independent tool takes it.
Independent are torch's own timer, loops written by hand, the operations counted by ptflops and by PaLM's
formula, the allocations that torch's profiler records, and two processes with torch's
DistributedDataParallel.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing import get_context
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile
from torch.utils import benchmark
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.distributed import DataParallel
from benchmarks.gpt_model import GPT, ModelCache, decode, prefill
from benchmarks.parallel_strategies import batch_rows
from benchmarks.workload_sizes import PARALLEL, SIZES
from perfci.bench import Absent, ModelBench
from perfci.bench.call_counts.count_call import count_call
from perfci.bench.call_counts.count_flops import count_flops
from tools.write_study_page import describe_circumstances, replace_figures

PAGE = Path(__file__).parent.parent / "docs" / "measuring.md"
AGREED, STALL_AGREED = 0.02, 0.05
TURNS = 7
SCALING_TURNS = 5
BLOCK_CALLS = 5
"""Least calls of a block on either side: the first after the other's turn finds caches full of strangers."""

REQUEST_TIMES = {
    **dict.fromkeys(("cpu_ttft", "cpu_tpot", "cpu_e2el"), "a loop by hand, CPU seconds"),
    "e2el": "a loop by hand, wall clock",
}
BATCH, NEW_TOKENS, PROMPT_TOKENS = 8, 24, 96
DATA_STEPS = 60
DECODE_S = 0.06
"""What a batch costs a worker: more than two steps take, less than four."""

SMALL = replace(SIZES, width=128, heads=4, layers=2, length=64)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One row of the table: our figure, the other one, and what may lie between them."""

    what: str
    model: str
    tool: str
    ours: float | Absent
    theirs: float
    unit: str
    is_share: bool = False

    @property
    def difference(self) -> float:
        """Relative difference, or that of two shares; 0 where our figure is absent."""
        if isinstance(self.ours, Absent):
            return 0.0
        return self.ours - self.theirs if self.is_share else self.ours / self.theirs - 1

    @property
    def agrees(self) -> bool:
        return abs(self.difference) <= (STALL_AGREED if self.is_share else AGREED)

    def row(self) -> list[str]:
        theirs = f"{self.theirs:.4g} {self.unit}".strip()
        if isinstance(self.ours, Absent):
            return [self.what, self.model, f"absent: {self.ours.reason}", theirs, self.tool, "", ""]
        ours = f"{self.ours:.4g} {self.unit}".strip()
        shown = f"{100 * self.difference:+.1f} {'points' if self.is_share else '%'}"
        return [self.what, self.model, ours, theirs, self.tool, shown, "yes" if self.agrees else "**no**"]


Parameters = Mapping[str, Any]
Rows = Mapping[str, list[float]]


class TrainingStep(ModelBench):
    """A small GPT, trained."""

    groups = ("training",)
    tokens_per_batch = BATCH * SMALL.length

    def build(self, p: Parameters) -> nn.Module:
        return GPT(SMALL)

    def batch(self, p: Parameters, i: int) -> Tensor:
        generator = torch.Generator().manual_seed(i)
        return torch.randint(SMALL.vocab, (BATCH, SMALL.length), generator=generator)

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        return functional.cross_entropy(model(batch).flatten(0, 1), batch.flatten())


class Request(ModelBench):
    """The same GPT, asked for tokens one by one."""

    groups = ("generation",)
    requests = 40

    def build(self, p: Parameters) -> nn.Module:
        return GPT(SMALL).eval()

    def prompt(self, p: Parameters) -> Tensor:
        return torch.arange(PROMPT_TOKENS).remainder(SMALL.vocab)[None]

    def stream(self, model: GPT, p: Parameters, prompt: Tensor) -> Iterator[Tensor]:
        cache = ModelCache(SMALL, "cpu", batch=1, length=PROMPT_TOKENS + NEW_TOKENS)
        token = prefill(model, prompt, cache)
        yield token
        for _ in range(NEW_TOKENS - 1):
            token = decode(model, token, cache, 1)
            yield token


def decode_slowly(samples: list[Any]) -> Tensor:
    """Wait as long as a batch costs to decode: workers that sleep need no cores of their own."""
    time.sleep(DECODE_S)
    return torch.stack([sample[0] for sample in samples])


class LoaderTraining(TrainingStep):
    """The same training, fed by a ``DataLoader`` whose samples take their time."""

    params = {"workers": [0, 2, 4]}

    def loader(self, p: Parameters) -> DataLoader[Any]:
        return make_loader(p["workers"])


def make_loader(workers: int) -> DataLoader[Any]:
    text = torch.randint(SMALL.vocab, (BATCH * DATA_STEPS, SMALL.length))
    return DataLoader(
        TensorDataset(text),
        BATCH,
        num_workers=workers,
        collate_fn=decode_slowly,
        persistent_workers=workers > 0,
    )


def measure(bench: ModelBench, group: str, *values: Any) -> Rows:
    """Samples by metric, as a process of ``perfci run`` would store them."""
    measured = getattr(bench, f"measure_{group}")(*values)
    return {row["name"]: row["samples"] for row in measured["metrics"] if row["status"] == "ok"}


@dataclass
class IndependentTool:
    """Takes the turns that perfci offers, as the other process of a pair would."""

    take_turn: Callable[[int], object]
    """Called with the number of calls that a block of perfci's has."""
    calls: int = 1

    def offer_turn(self) -> None:
        self.take_turn(self.calls)

    def agree_on_number(self, number: int) -> int:
        self.calls = max(BLOCK_CALLS, number)
        return self.calls


@contextmanager
def offer_turns_to(tool: IndependentTool) -> Iterator[None]:
    """Stand for the module by which the runner lets two processes take turns."""
    harness = ModuleType("perfci_harness.turn_slots")
    harness.process_turns = tool  # type: ignore[attr-defined]
    sys.modules[harness.__name__] = harness
    try:
        yield
    finally:
        del sys.modules[harness.__name__]


def compare_training() -> Iterator[Comparison]:
    """Step time against torch's timer, both in CPU seconds; tokens/s against a loop and a wall clock."""
    bench, step = TrainingStep(), build_handwritten_step()
    torchs = benchmark.Timer("step()", globals={"step": step}, timer=time.process_time, num_threads=1)
    torchs.timeit(20)
    pairs, rates = [], []
    for _ in range(TURNS):
        by_torch: list[float] = []
        by_loop: list[float] = []

        def take_turn(calls: int, by_torch: list[float] = by_torch, by_loop: list[float] = by_loop) -> None:
            by_torch.append(torchs.timeit(calls).mean)
            by_loop.append(time_loop(step, calls))

        with offer_turns_to(IndependentTool(take_turn)):
            measured = measure(bench, "training")
        # Turns of other metrics come after those of the step.
        pairs += list(zip(measured["cpu_step_time"], by_torch, strict=False))
        # The rate is one figure of all blocks; of each block it is what that block lasted longer or shorter.
        (rate,), middle_s = measured["tokens_per_s"], statistics.median(measured["step_time"])
        rates += [
            (rate * middle_s / block_s, bench.tokens_per_batch / loop_s)
            for block_s, loop_s in zip(measured["step_time"], by_loop, strict=False)
        ]
    yield compare_median_pair("step time", "GPT", "torch.utils.benchmark, CPU seconds", pairs, "s")
    yield compare_median_pair("tokens/s", "GPT", "a loop by hand, wall clock", rates, "tokens/s")


def build_handwritten_step() -> Callable[[], None]:
    bench = TrainingStep()
    model = bench.build({})
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    batch = bench.batch({}, 0)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(model(batch).flatten(0, 1), batch.flatten()).backward()
        optimizer.step()

    return step


def time_loop(work: Callable[[], object], number: int) -> float:
    """Wall seconds of one call."""
    begin = time.perf_counter()
    for _ in range(number):
        work()
    return (time.perf_counter() - begin) / number


def compare_median_pair(
    what: str, model: str, tool: str, pairs: list[tuple[float, float]], unit: str, *, is_share: bool = False
) -> Comparison:
    """The pair in the middle, by what lies between ours and theirs."""

    def difference(pair: tuple[float, float]) -> float:
        return pair[0] - pair[1] if is_share else pair[0] / pair[1]

    ours, theirs = sorted(pairs, key=difference)[len(pairs) // 2]
    return Comparison(what, model, tool, ours, theirs, unit, is_share)


def compare_requests() -> Iterator[Comparison]:
    """TTFT, TPOT and the whole request against a loop written without us, by both clocks."""
    bench = Request()
    model = bench.build({})
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in REQUEST_TIMES}
    for _ in range(TURNS):
        by_hand: list[dict[str, float]] = []

        def take_turn(_: int, by_hand: list[dict[str, float]] = by_hand) -> None:
            by_hand.append(time_request_by_hand(model))

        with offer_turns_to(IndependentTool(take_turn)):
            measured = measure(bench, "generation")
        for name, theirs in pairs.items():
            theirs += [(ours, request[name]) for ours, request in zip(measured[name], by_hand, strict=True)]
    for name, tool in REQUEST_TIMES.items():
        yield compare_median_pair(name.removeprefix("cpu_").upper(), "GPT", tool, pairs[name], "s")


def time_request_by_hand(model: GPT) -> dict[str, float]:
    """One request by a loop that reads the clocks three times."""
    prompt = torch.arange(PROMPT_TOKENS).remainder(SMALL.vocab)[None]
    with torch.no_grad():
        begin = time.perf_counter(), time.process_time()
        cache = ModelCache(SMALL, "cpu", batch=1, length=PROMPT_TOKENS + NEW_TOKENS)
        token = prefill(model, prompt, cache)
        first = time.perf_counter(), time.process_time()
        for _ in range(NEW_TOKENS - 1):
            token = decode(model, token, cache, 1)
        end = time.perf_counter(), time.process_time()
    seconds: dict[str, float] = {}
    for prefix, sent, first_at, ended in zip(("", "cpu_"), begin, first, end, strict=True):
        seconds[f"{prefix}ttft"] = first_at - sent
        seconds[f"{prefix}tpot"] = (ended - first_at) / (NEW_TOKENS - 1)
        seconds[f"{prefix}e2el"] = ended - sent
    return seconds


class LanguageLSTM(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, 256)
        self.lstm = nn.LSTM(256, 512, 2, batch_first=True)
        self.head = nn.Linear(512, 1000)

    def forward(self, src: Tensor) -> Tensor:
        return self.head(self.lstm(self.embedding(src))[0])


class ResidualNetwork(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 7, 2, 3)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(64, 64, 3, padding=1),
                nn.BatchNorm2d(64),
                nn.ReLU(),
                nn.Conv2d(64, 64, 3, padding=1),
                nn.BatchNorm2d(64),
            )
            for _ in range(3)
        )
        self.head = nn.Linear(64, 10)

    def forward(self, src: Tensor) -> Tensor:
        x = self.stem(src).relu()
        for block in self.blocks:
            x = (x + block(x)).relu()
        return self.head(x.mean((2, 3)))


class SpeechToText(nn.Module):  # type: ignore[misc]
    """Convolutions over a spectrogram, an encoder, and a decoder that attends to it, as Whisper has them."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv1d(80, 256, 3, padding=1),
            nn.GELU(),
            nn.Conv1d(256, 256, 3, stride=2, padding=1),
            nn.GELU(),
        )
        self.embedding = nn.Embedding(500, 256)
        self.transformer = nn.Transformer(256, 4, 2, 2, 1024, dropout=0.0, batch_first=True)
        self.head = nn.Linear(256, 500)

    def forward(self, src: Tensor) -> Tensor:
        sound = self.convolutions(src).transpose(1, 2)
        text = self.embedding(torch.arange(32).repeat(len(src), 1))
        return self.head(self.transformer(sound, text))


def compare_flops() -> Iterator[Comparison]:
    """Operations of a training step of the GPT against PaLM's formula, of others against ptflops."""
    step = build_handwritten_step()
    step()
    model = GPT(SMALL)
    in_products = sum(weight.numel() for name, weight in model.named_parameters() if weight.ndim == 2)
    in_products -= model.positions.weight.numel()
    per_token = 6 * in_products + 12 * SMALL.layers * SMALL.width * SMALL.length
    formula = float(per_token * BATCH * SMALL.length)
    yield Comparison("FLOPs of a step", "GPT", "6N + 12LHQT (PaLM)", count_flops(step), formula, "FLOP")
    layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    models = {
        "LSTM": (LanguageLSTM(), torch.randint(1000, (4, 64))),
        "ResNet": (ResidualNetwork(), torch.randn(4, 3, 64, 64)),
        "nn.TransformerEncoder": (nn.TransformerEncoder(layer, 4), torch.randn(4, 128, 512)),
        "Whisper-like": (SpeechToText(), torch.randn(4, 80, 256)),
    }
    for name, (module, inputs) in models.items():
        module.eval()
        with torch.no_grad():
            ours = count_flops(partial(module, inputs))
        yield Comparison("FLOPs forward", name, "ptflops", ours, count_with_ptflops(module, inputs), "FLOP")


def count_with_ptflops(module: nn.Module, inputs: Tensor) -> float:
    """Twice the multiply-accumulates that ptflops counts by wrapping modules and functions."""
    from ptflops import get_model_complexity_info

    macs, _ = get_model_complexity_info(
        module,
        (1,),
        as_strings=False,
        print_per_layer_stat=False,
        input_constructor=lambda _: {"src": inputs},
        backend="pytorch",
    )
    return 2 * float(macs)


def compare_peaks() -> Iterator[Comparison]:
    """Tensor peaks against the running sum of all allocations that torch's profiler records."""
    for name, build in {"GPT": lambda: GPT(SMALL), "LSTM": LanguageLSTM}.items():
        train = partial(train_two_steps, build)
        train()
        ours = count_call(train).peak_tensor_bytes
        yield Comparison("tensor peak", name, "torch.profiler", ours, profile_peak(train), "B")


def train_two_steps(build: Callable[[], nn.Module]) -> None:
    """Two steps: the second holds the state of the optimizer as well."""
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(2):
        optimizer.zero_grad(set_to_none=True)
        text = torch.zeros(BATCH, SMALL.length, dtype=torch.long)
        functional.cross_entropy(model(text).flatten(0, 1), text.flatten()).backward()
        optimizer.step()


def profile_peak(work: Callable[[], object]) -> float:
    """The highest running sum of the profiler's records of memory, in bytes."""
    gc.collect()
    gc.disable()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        work()
    gc.enable()
    results = profiler.profiler.kineto_results
    records = sorted(
        (event.start_ns(), event.nbytes()) for event in results.events() if event.name() == "[memory]"
    )
    alive = peak = 0
    for _, change in records:
        alive += change
        peak = max(peak, alive)
    return float(peak)


def compare_stall() -> Iterator[Comparison]:
    """The share of a training's time that waits for data, against a loop over the same ``DataLoader``."""
    bench = LoaderTraining()
    for workers in (0, 2, 4):
        pairs = []
        for _ in range(3):
            ours = statistics.median(measure(bench, "training", workers)["data_stall"])
            pairs.append((ours, measure_stall_by_hand(workers)))
        yield compare_median_pair(
            f"data stall, {workers} workers", "GPT", "a loop by hand", pairs, "", is_share=True
        )


def measure_stall_by_hand(workers: int) -> float:
    """Seconds in ``next`` over all seconds, from the step on at which nothing lies ready any more."""
    step = build_handwritten_step()
    batches = iter(make_loader(workers))
    for _ in range(2 * workers + 2):
        next(batches)
        step()
    waited, begin = 0.0, time.perf_counter()
    for _ in range(DATA_STEPS - 2 * workers - 2):
        asked = time.perf_counter()
        next(batches)
        waited += time.perf_counter() - asked
        step()
    return waited / (time.perf_counter() - begin)


def compare_scaling() -> Iterator[Comparison]:
    """Weak scaling of DDP on two ranks against two processes by hand before and after, by wall time."""
    bench, pairs = DataParallel(), []
    before = train_in_processes(1) / train_in_processes(2)
    for _ in range(SCALING_TURNS):
        measured = bench.measure_training("ddp", "weak", 2, SIZES.name)["metrics"]
        ours = next(row["samples"] for row in measured if row["name"] == "scaling_efficiency")
        after = train_in_processes(1) / train_in_processes(2)
        pairs.append((statistics.median(ours), (before + after) / 2))
        before = after
    yield compare_median_pair("scaling efficiency", "GPT, DDP, 2 ranks", "two processes by hand", pairs, "")


def train_in_processes(ranks: int) -> float:
    """Wall seconds of a step of rank 0 of so many."""
    context = get_context("spawn")
    answers = context.SimpleQueue()
    with TemporaryDirectory() as folder:
        meeting = f"{folder}/meeting"
        processes = [
            context.Process(target=train_one_rank, args=(rank, ranks, meeting, answers))
            for rank in range(ranks)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit("a rank by hand failed")
    return float(answers.get())


def train_one_rank(rank: int, ranks: int, meeting: str, answers: Any) -> None:
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    dist.init_process_group("gloo", f"file://{meeting}", timedelta(seconds=60), world_size=ranks, rank=rank)
    torch.manual_seed(0)
    model: nn.Module = GPT(PARALLEL.model)
    if ranks > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    text = batch_rows(rank, PARALLEL.rows, ranks)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        logits = model(text[:, :-1])
        functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten()).backward()
        optimizer.step()

    time_loop(step, 20)
    seconds = []
    for _ in range(20):
        dist.barrier()
        seconds.append(time_loop(step, 10))
    if rank == 0:
        answers.put(statistics.median(seconds))
    dist.destroy_process_group()


PARTS: dict[str, Callable[[], Iterator[Comparison]]] = {
    "training": compare_training,
    "requests": compare_requests,
    "flops": compare_flops,
    "peaks": compare_peaks,
    "stall": compare_stall,
    "scaling": compare_scaling,
}
HEADER = ["what", "model", "perfci", "independent", "by", "difference", "agrees"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="print one part, and write no page")
    chosen = parser.parse_args()
    load = os.getloadavg()[2]
    torch.set_num_threads(1)
    comparisons = []
    for name in chosen.only or PARTS:
        for comparison in PARTS[name]():
            comparisons.append(comparison)
            print(" | ".join(comparison.row()), flush=True)
    if not chosen.only:
        rows = [HEADER, ["---"] * len(HEADER), *(comparison.row() for comparison in comparisons)]
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        replace_figures(PAGE, f"{describe_circumstances(load)}.\n\n{table}")
    if wrong := [comparison.what for comparison in comparisons if not comparison.agrees]:
        raise SystemExit(f"further apart than agreed: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
