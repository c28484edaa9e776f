"""The data path of training: reading, decompressing, tokenising, loading, and copying to the device."""

from __future__ import annotations

import bz2
import ctypes
import dataclasses
import functools
import gzip
import hashlib
import lzma
import mmap
import os
import random
import re
import statistics
import tempfile
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from perfci.bench import (
    Absent,
    Bench,
    Clock,
    Measurement,
    Metric,
    Reading,
    exact,
    informational,
    metrics,
    skip_exception,
)
from perfci.bench.call_counts import count_call
from perfci.bench.devices.torch_devices import Cpu, this_device
from perfci.bench.parity import ParityFailed
from perfci.bench.timers.timed_blocks import Timing, time_blocks

from .workload_sizes import DATA, DEVICE, SIZES, seed_and_pin_threads

MEMORY_KINDS = ["pageable", "pinned"]
host_timing = functools.partial(time_blocks, device=Cpu(), **DATA.timing)

NO_PINNING = "pinned memory is what a device copies from by itself, and torch sees no device but the CPU"
GIGABYTE = 1e9
STEP_EDGE, STEP_PRODUCTS = 4096, 32
"""Matrix products that take about as long as a copy of 256 MB over PCI Express: 4.4 TFLOP."""


class Loader(Bench):
    """A loop that trains on what a ``DataLoader`` brings: how long it waits, of how long it takes.

    Waiting is the host's time in ``next``, while the device still works on the steps before: torchtitan's
    ``data_loading(s)`` and ``data_loading(%)``. The first batch of an epoch is not in it, it waits for the
    workers to start: ``loader_startup``. It is wall time, since a process that waits uses no CPU; only
    without workers is waiting work of this very process.
    """

    params = (DATA.workers, DATA.prefetch, MEMORY_KINDS, [SIZES.name])
    param_names = ("workers", "prefetch", "memory", "sizes")

    @metrics(
        Metric("data_time", "seconds"),
        Metric("data_stall", "ratio"),
        Metric("loader_startup", "seconds"),
        Metric("step_time", "seconds"),
    )
    def measure_loader(self, workers: int, prefetch: int, memory: str, sizes: str) -> Measurement:
        if memory == "pinned" and DEVICE == "cpu":
            raise skip_exception(NO_PINNING)
        if workers == 0 and prefetch != DATA.prefetch[0]:
            raise skip_exception("without workers nothing is fetched ahead, so prefetch changes nothing")
        seed_and_pin_threads()
        step = QueuedStep()
        loader = create_loader(workers, prefetch, pinned=memory == "pinned")
        for batch in range(3):
            step(torch.full((DATA.loader_batch, TextDataset.TOKENS), batch, dtype=torch.uint8))
        epochs = [run_epoch(loader, step) for _ in range(DATA.epochs)]
        steps = DATA.loader_steps
        own_work = [epoch.waited_cpu_s / steps for epoch in epochs] if workers == 0 else ()
        readings = {
            "data_time": Reading(
                [epoch.waited_s / steps for epoch in epochs], Clock.WALL, steps, cpu=own_work
            ),
            "data_stall": Reading([epoch.waited_s / epoch.loop_s for epoch in epochs], Clock.VALUE, steps),
            "loader_startup": Reading([epoch.startup_s for epoch in epochs], Clock.WALL),
            "step_time": informational(*(epoch.loop_s / steps for epoch in epochs)),
        }
        return Measurement(readings)


@dataclasses.dataclass(frozen=True)
class Epoch:
    """Seconds of one pass: to the first batch, of the loop from there on, and in that loop waiting for
    batches.
    """

    startup_s: float
    loop_s: float
    waited_s: float
    waited_cpu_s: float  # that this process spent in them


def run_epoch(loader: Iterable[Tensor], step: Callable[[Tensor], None]) -> Epoch:
    start = time.perf_counter()
    batches = iter(loader)
    batch = next(batches)
    begin = time.perf_counter()
    waited, waited_cpu = 0.0, 0.0
    for _ in range(DATA.loader_steps):
        step(batch)
        asked, asked_cpu = time.perf_counter(), time.process_time()
        batch = next(batches)
        waited += time.perf_counter() - asked
        waited_cpu += time.process_time() - asked_cpu
    this_device().synchronize()
    return Epoch(begin - start, time.perf_counter() - begin, waited, waited_cpu)


def create_loader(workers: int, prefetch: int, *, pinned: bool = False) -> DataLoader[Tensor]:
    """Load one batch more than an epoch has steps: the loop waits for a next batch after every step.

    The generator seeds the workers' random numbers, so that every epoch of every process crops alike. How
    many workers are too many for a machine is what is measured: torch's advice on it is not wanted.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
        return DataLoader(
            TextDataset(DATA.loader_batch * (DATA.loader_steps + 1)),
            DATA.loader_batch,
            num_workers=workers,
            prefetch_factor=prefetch if workers else None,
            pin_memory=pinned,
            generator=torch.Generator().manual_seed(0),
        )


class TextDataset(Dataset[Tensor]):
    """Texts that cost CPU time to make: hashed often enough, then cropped at random."""

    HASHES = 4
    TOKENS = 512

    def __init__(self, count: int) -> None:
        self.count = count
        self.raw = bytes(64 << 10)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        digest = index.to_bytes(8, "little")
        for _ in range(self.HASHES):
            digest = hashlib.sha256(digest + self.raw).digest()
        text = torch.frombuffer(bytearray(digest * (2 * self.TOKENS // len(digest))), dtype=torch.uint8)
        start = int(torch.randint(self.TOKENS, ()))
        return text[start : start + self.TOKENS].clone()


class QueuedStep:
    """A forward and backward pass, queued and not waited for."""

    def __init__(self) -> None:
        width = DATA.step_width
        self.network = nn.Sequential(
            nn.Linear(TextDataset.TOKENS, width), nn.GELU(), nn.Linear(width, width)
        ).to(DEVICE)

    def __call__(self, batch: Tensor) -> None:
        loss = self.network(batch.to(DEVICE, torch.float32, non_blocking=True) / 255).square().mean()
        torch.autograd.grad(loss, list(self.network.parameters()))


class HostToDevice(Bench):
    """One copy to the device, on a stream of its own, and how much of it a step beside it does not hide."""

    params = (MEMORY_KINDS, ["blocking", "non_blocking"], [DATA.copy_bytes], [SIZES.name])
    param_names = ("memory", "copy", "bytes", "sizes")

    @metrics(
        Metric("copy_time", "seconds"),
        Metric("step_with_copy_time", "seconds"),
        Metric("exposed_copy_time", "seconds"),
        Metric("pageable_copy_bytes", "bytes"),
        Metric("bandwidth", "bytes/s", "higher"),
    )
    def measure_copy(self, memory: str, copy: str, size: int, sizes: str) -> Measurement:
        seed_and_pin_threads()
        if DEVICE == "cpu":
            return copy_in_memory(memory, copy, size)
        return copy_to_device(memory, copy, size)


def copy_in_memory(memory: str, copy: str, size: int) -> Measurement:
    """What is left of a copy to the device where there is none: the bandwidth of host memory."""
    if memory == "pinned":
        raise skip_exception(NO_PINNING)
    if copy == "non_blocking":
        raise skip_exception("no device copies while the CPU goes on, so no copy can be left to one")
    source, target = torch.ones(size, dtype=torch.uint8), torch.empty(size, dtype=torch.uint8)
    timing = host_timing(lambda: target.copy_(source))
    absent = Absent("nothing is copied to a device: torch sees none but the CPU")
    readings = {
        "copy_time": timing.reading(),
        "step_with_copy_time": absent,
        "exposed_copy_time": absent,
        "pageable_copy_bytes": absent,
        "bandwidth": informational(*(size / seconds for seconds in timing.wall)),
    }
    return Measurement(readings, flags=timing.flags)


def copy_to_device(memory: str, copy: str, size: int) -> Measurement:
    """CUDA copies pageable memory through a buffer of its own, and the host waits whatever ``non_blocking``
    says.
    """
    source = torch.ones(size, dtype=torch.uint8, pin_memory=memory == "pinned")
    target = torch.empty(size, dtype=torch.uint8, device=DEVICE)
    stream = torch.cuda.Stream()

    def transfer() -> None:
        target.copy_(source, non_blocking=copy == "non_blocking")

    with torch.cuda.stream(stream):
        copying = time_blocks(transfer, **DATA.timing)
    resident, beside = step_timings(transfer, stream)
    silent = memory == "pageable" and copy == "non_blocking"
    readings = {
        "copy_time": copying.reading(),
        "step_with_copy_time": beside.reading(),
        "exposed_copy_time": informational(
            statistics.median(beside.judged_samples) - statistics.median(resident.judged_samples)
        ),
        "pageable_copy_bytes": exact(count_call(transfer).pageable_copy_bytes),
        "bandwidth": informational(*(size / seconds for seconds in copying.elapsed_samples)),
    }
    return Measurement(
        readings, flags=(*copying.flags, *(["non_blocking was silently synchronous"] if silent else []))
    )


def step_timings(transfer: Callable[[], None], stream: torch.cuda.Stream) -> tuple[Timing, Timing]:
    """Time a step whose data is already there, and one that fetches the next step's data meanwhile."""
    matrix = torch.randn(STEP_EDGE, STEP_EDGE, device=DEVICE, dtype=torch.bfloat16)
    compute = torch.cuda.current_stream()

    def step() -> None:
        for _ in range(STEP_PRODUCTS):
            matrix @ matrix

    def step_beside_copy() -> None:
        stream.wait_stream(compute)  # the last step still reads what will be overwritten
        with torch.cuda.stream(stream):
            transfer()
        step()
        compute.wait_stream(stream)

    return time_blocks(step, **DATA.timing), time_blocks(step_beside_copy, **DATA.timing)


class Read(Bench):
    """Reading a file: from the page cache, or after the kernel was told to forget it.

    Cold is what this kernel's cache makes of it: a disk or a host below may remember on its own.
    """

    params = (["warm", "cold"], [DATA.file_bytes], [SIZES.name])
    param_names = ("page_cache", "bytes", "sizes")

    @metrics(Metric("read_time", "seconds/GB"), Metric("bandwidth", "bytes/s", "higher"))
    def measure_read(self, page_cache: str, size: int, sizes: str) -> Measurement:
        with tempfile.TemporaryFile(dir=".") as file:
            file.write(random.Random(0).randbytes(size))
            file.flush()
            os.fsync(file.fileno())  # pages that are not on the disk yet cannot be forgotten
            if page_cache == "warm":
                timing = host_timing(lambda: read_file(file.fileno(), size))
                reading = timing.reading()
            else:
                timing = host_timing(
                    lambda: read_file(file.fileno(), size),
                    prepare=lambda: forget_pages(file.fileno(), size),
                    number=1,
                )
                reading = Reading(timing.wall, Clock.WALL)  # waiting for a disk uses no CPU
        return Measurement(
            {
                "read_time": scale_reading(reading, GIGABYTE / size),
                "bandwidth": informational(*(size / seconds for seconds in timing.wall)),
            },
            flags=timing.flags,
        )


def read_file(descriptor: int, size: int) -> None:
    buffer = bytearray(1 << 20)
    for offset in range(0, size, len(buffer)):
        os.preadv(descriptor, [buffer], offset)


def forget_pages(descriptor: int, size: int) -> None:
    """Drop a file from the page cache, and check that it is gone: a file on tmpfs stays in memory."""
    if not hasattr(os, "posix_fadvise"):
        raise skip_exception("this system has no way to drop one file from its page cache")
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    kept = cached_ratio(descriptor, size)
    if kept > 0.01:
        raise skip_exception(
            f"the file cannot be made cold: the kernel kept {kept:.0%} of it in its page cache"
        )


def cached_ratio(descriptor: int, size: int) -> float:
    """Ask mincore(2), which changes nothing: a read of what is cached only (RWF_NOWAIT) would start reading
    ahead.
    """
    pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    with mmap.mmap(descriptor, size) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        failed = ctypes.CDLL(None).mincore(
            ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), pages
        )
        del start  # a mapping that is still referred to does not close
    if failed:
        raise skip_exception("this kernel does not report which pages of a file are cached (mincore)")
    return sum(page & 1 for page in pages) / len(pages)


class Decompress(Bench):
    """Decompressing text in memory, per gigabyte that comes out."""

    params = (["gzip", "zlib", "lzma", "bz2"], [DATA.packed_bytes], [SIZES.name])
    param_names = ("codec", "bytes", "sizes")

    @metrics(
        Metric("decompress_time", "seconds/GB"),
        Metric("bandwidth", "bytes/s", "higher"),
        Metric("compressed_size", "ratio"),
    )
    def measure_decompress(self, codec: str, size: int, sizes: str) -> Measurement:
        text = generate_text(size)
        compress, decompress = CODECS[codec]
        packed = compress(text)
        if decompress(packed) != text:
            raise ParityFailed(f"{codec} does not give back what it was given")
        timing = host_timing(lambda: decompress(packed))
        readings = {
            "decompress_time": scale_reading(timing.reading(), GIGABYTE / size),
            "bandwidth": informational(*(size / seconds for seconds in timing.wall)),
            "compressed_size": informational(len(packed) / size),
        }
        return Measurement(readings, flags=timing.flags)


CODECS: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "gzip": (functools.partial(gzip.compress, compresslevel=6, mtime=0), gzip.decompress),
    "zlib": (functools.partial(zlib.compress, level=6), zlib.decompress),
    "lzma": (functools.partial(lzma.compress, preset=0), lzma.decompress),
    "bz2": (bz2.compress, bz2.decompress),
}


class Preprocess(Bench):
    """Work on the CPU that turns documents into tokens, and notes into steps of a grid."""

    params = ([SIZES.name],)
    param_names = ("sizes",)

    @metrics(
        Metric("time_per_1k_documents", "seconds"),
        Metric("tokens", "count"),
        Metric("token_rate", "tokens/s", "higher"),
    )
    def measure_tokenise(self, sizes: str) -> Measurement:
        documents = [generate_text(400, seed).decode() for seed in range(DATA.documents)]
        tokeniser = Tokeniser.learn(documents[:20])
        timing = host_timing(lambda: [tokeniser.encode(document) for document in documents])
        tokens = sum(len(tokeniser.encode(document)) for document in documents)
        readings = {
            "time_per_1k_documents": scale_reading(timing.reading(), 1000 / len(documents)),
            "tokens": exact(tokens),
            "token_rate": informational(*(tokens / seconds for seconds in timing.elapsed_samples)),
        }
        return Measurement(readings, flags=timing.flags)

    @metrics(
        Metric("loop_time", "seconds"),
        Metric("batched_time", "seconds"),
        Metric("speedup", "ratio", "higher"),
    )
    def measure_quantise(self, sizes: str) -> Measurement:
        seed_and_pin_threads()
        onsets = torch.rand(DATA.notes, dtype=torch.float64) * 600
        listed = onsets.tolist()
        if quantise_loop(listed) != quantise(onsets).tolist():
            raise ParityFailed("the loop and the batched form put notes on different steps")
        loop = host_timing(lambda: quantise_loop(listed))
        batched = host_timing(lambda: quantise(onsets))
        readings = {
            "loop_time": loop.reading(),
            "batched_time": batched.reading(),
            "speedup": informational(
                statistics.median(loop.judged_samples) / statistics.median(batched.judged_samples)
            ),
        }
        return Measurement(readings, flags=(*loop.flags, *batched.flags))


@dataclasses.dataclass(frozen=True)
class Tokeniser:
    """Byte-pair encoding of words (Sennrich et al., arXiv:1508.07909), merging pairs in learned order.

    Every word is merged anew. A cache of words, as GPT-2's has, would make this a benchmark of a dictionary.
    """

    ranks: dict[tuple[str, str], int]

    WORDS = re.compile(r" ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+")
    MERGES = 100

    @classmethod
    def learn(cls, documents: list[str]) -> Tokeniser:
        """Merge the most frequent pair of neighbours, the alphabetically first of equals, again and again."""
        words = Counter(word for document in documents for word in cls.WORDS.findall(document))
        parts = {word: list(word) for word in words}
        ranks: dict[tuple[str, str], int] = {}
        while len(ranks) < cls.MERGES:
            pairs: Counter[tuple[str, str]] = Counter()
            for word, frequency in words.items():
                for pair in pairwise(parts[word]):
                    pairs[pair] += frequency
            if not pairs:
                break
            best = min(pairs, key=lambda pair: (-pairs[pair], pair))
            ranks[best] = len(ranks)
            parts = {word: merge_pair(pieces, best) for word, pieces in parts.items()}
        return cls(ranks)

    def encode(self, document: str) -> list[str]:
        return [token for word in self.WORDS.findall(document) for token in self.merge_word(word)]

    def merge_word(self, word: str) -> list[str]:
        pieces = list(word)
        while ranked := [(self.ranks[pair], pair) for pair in pairwise(pieces) if pair in self.ranks]:
            pieces = merge_pair(pieces, min(ranked)[1])
        return pieces


def merge_pair(pieces: list[str], pair: tuple[str, str]) -> list[str]:
    """Join every occurrence of a pair of neighbours, from the left."""
    result: list[str] = []
    for piece in pieces:
        if result and (result[-1], piece) == pair:
            result[-1] += piece
        else:
            result.append(piece)
    return result


STEP_S = 60 / 120 / 4  # a sixteenth note at 120 beats per minute


def quantise_loop(onsets: list[float]) -> list[int]:
    return [round(onset / STEP_S) for onset in onsets]


def quantise(onsets: Tensor) -> Tensor:
    return torch.round(onsets / STEP_S).long()


def generate_text(size: int, seed: int = 0) -> bytes:
    """Write text whose words are as unevenly frequent as Zipf's law has it, the same for one seed."""
    words = random.Random(1)
    vocabulary = ["".join(words.choices("etaoinshrdlu", k=words.randint(2, 9))) for _ in range(2000)]
    weights = [1 / rank for rank in range(1, len(vocabulary) + 1)]
    chosen = random.Random(seed).choices(vocabulary, weights, k=size // 3 + 1)
    return " ".join(chosen).encode()[:size]


def scale_reading(reading: Reading, factor: float) -> Reading:
    return dataclasses.replace(
        reading,
        samples=[sample * factor for sample in reading.samples],
        cpu=[sample * factor for sample in reading.cpu],
    )
