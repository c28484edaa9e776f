"""The data path of training: reading, decompressing, tokenising, loading, and copying to the device."""

from __future__ import annotations

import bz2
import ctypes
import dataclasses
import functools
import gzip
import hashlib
import html
import importlib.util
import lzma
import mmap
import os
import random
import re
import statistics
import tempfile
import time
import unicodedata
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import IO, Any

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
from perfci.bench.timers.stage_timers import Stages, declare_stage_metrics
from perfci.bench.timers.timed_blocks import Timing, time_blocks
from perfci.number_format import format_percent

from .workload_sizes import DATA, DEVICE, SIZES, declare_cost, seed_and_pin_threads

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
    workers to start: ``loader_startup``, which ``persistent`` workers do once for all epochs. Nor are the
    batches that were fetched ahead meanwhile: a loop that uses them up waits for nothing, and is no loop
    that goes on. It is wall time, since a process that waits uses no CPU; only without workers is waiting
    work of this very process.
    """

    cost_s = declare_cost(smoke=2.5, real=20)
    default_suite = {
        "workers": DATA.workers[1:2],
        "memory": ["pageable"],
        "lifetime": ["restarted"],
        "prefetch": DATA.prefetch[:1],
    }
    params = (DATA.workers, DATA.prefetch, MEMORY_KINDS, ["restarted", "persistent"], [SIZES.name])
    param_names = ("workers", "prefetch", "memory", "lifetime", "sizes")

    @metrics(
        Metric("data_time", "seconds"),
        Metric("data_stall", "ratio"),
        Metric("loader_startup", "seconds"),
        Metric("step_time", "seconds"),
    )
    def measure_loader(
        self, workers: int, prefetch: int, memory: str, lifetime: str, sizes: str
    ) -> Measurement:
        if memory == "pinned" and DEVICE == "cpu":
            raise skip_exception(NO_PINNING)
        if workers == 0 and prefetch != DATA.prefetch[0]:
            raise skip_exception("without workers nothing is fetched ahead, so prefetch changes nothing")
        if workers == 0 and lifetime == "persistent":
            raise skip_exception("without workers there are none that could persist")
        seed_and_pin_threads()
        step = QueuedStep()
        loader = create_loader(
            workers, prefetch, pinned=memory == "pinned", persistent=lifetime == "persistent"
        )
        for batch in range(3):
            step(torch.full((DATA.loader_batch, TextDataset.TOKENS), batch, dtype=torch.uint8))
        epochs = [run_epoch(loader, step, fetched_ahead=workers * prefetch) for _ in range(DATA.epochs)]
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


def run_epoch(loader: Iterable[Tensor], step: Callable[[Tensor], None], *, fetched_ahead: int = 0) -> Epoch:
    """Start an epoch, use up the batches that are fetched ahead, then time ``DATA.loader_steps`` steps."""
    start = time.perf_counter()
    batches = iter(loader)
    batch = next(batches)
    startup_s = time.perf_counter() - start
    for _ in range(fetched_ahead):
        step(batch)
        batch = next(batches)
    this_device().synchronize()
    begin = time.perf_counter()
    waited, waited_cpu = 0.0, 0.0
    for _ in range(DATA.loader_steps):
        step(batch)
        asked, asked_cpu = time.perf_counter(), time.process_time()
        batch = next(batches)
        waited += time.perf_counter() - asked
        waited_cpu += time.process_time() - asked_cpu
    this_device().synchronize()
    return Epoch(startup_s, time.perf_counter() - begin, waited, waited_cpu)


def create_loader(
    workers: int, prefetch: int, *, pinned: bool = False, persistent: bool = False
) -> DataLoader[Tensor]:
    """Load one batch more than an epoch has steps: the loop waits for a next batch after every step.

    With workers there are as many more as are fetched ahead, before the timed steps and after them, so that
    every timed step meets workers that are busy.

    The generator seeds the workers' random numbers, so that every epoch of every process crops alike. How
    many workers are too many for a machine is what is measured: torch's advice on it is not wanted.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
        batches = DATA.loader_steps + 1 + 2 * workers * prefetch
        return DataLoader(
            TextDataset(DATA.loader_batch * batches),
            DATA.loader_batch,
            num_workers=workers,
            persistent_workers=persistent,
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

    cost_s = declare_cost(smoke=0.3, real=5)
    default_suite = {
        "memory": ["pageable" if DEVICE == "cpu" else "pinned"],
        "copy": ["blocking" if DEVICE == "cpu" else "non_blocking"],
    }
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

    cost_s = declare_cost(smoke=0.6, real=8)
    default_suite = False
    params = (["warm", "cold"], [DATA.file_bytes], [SIZES.name])
    param_names = ("page_cache", "bytes", "sizes")

    @metrics(Metric("read_time", "seconds/GB"), Metric("bandwidth", "bytes/s", "higher"))
    def measure_read(self, page_cache: str, size: int, sizes: str) -> Measurement:
        with tempfile.TemporaryFile(dir=".") as file:
            write_random_bytes(file, size)
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


def write_random_bytes(file: IO[bytes], size: int) -> None:
    """Fill a file with bytes that do not compress, 32 MB again and again, and wait until the disk has them.

    Pages that are not on the disk yet could not be forgotten.
    """
    block = random.Random(0).randbytes(min(size, 32 << 20))
    for written in range(0, size, len(block)):
        file.write(block[: size - written])
    file.flush()
    os.fsync(file.fileno())


class ReadParallel(Bench):
    """Several readers of one cold file, each with a part of its own, against what the disk can give at most.

    The limit is read in the same process: eight readers past the page cache (``O_DIRECT``), 1 MB at a time,
    the best of five passes. A disk or a host below may remember on its own, and then the limit is that of
    its memory.
    """

    cost_s = declare_cost(smoke=0.7, real=12)
    default_suite = {"readers": DATA.readers[1:2]}
    params = (DATA.readers, [DATA.file_bytes], [SIZES.name])
    param_names = ("readers", "bytes", "sizes")

    @metrics(
        Metric("read_time", "seconds/GB"),
        Metric("bandwidth", "bytes/s", "higher"),
        Metric("disk_bandwidth", "bytes/s", "higher"),
        Metric("share_of_disk", "ratio", "higher"),
    )
    def measure_parallel_read(self, readers: int, size: int, sizes: str) -> Measurement:
        with tempfile.NamedTemporaryFile(dir=".") as file, ThreadPoolExecutor(DISK_READERS) as pool:
            write_random_bytes(file, size)
            timing = host_timing(
                lambda: read_in_parts(pool, file.fileno(), size, readers),
                prepare=lambda: forget_pages(file.fileno(), size),
                number=1,
            )
            limit = disk_bandwidth(pool, file.name, size)
        bandwidths = [size / seconds for seconds in timing.wall]
        readings = {
            "read_time": scale_reading(Reading(timing.wall, Clock.WALL), GIGABYTE / size),
            "bandwidth": informational(*bandwidths),
            "disk_bandwidth": limit if isinstance(limit, Absent) else informational(limit),
            "share_of_disk": limit
            if isinstance(limit, Absent)
            else informational(statistics.median(bandwidths) / limit),
        }
        return Measurement(readings, flags=timing.flags)


DISK_READERS, DISK_BLOCK = 8, 1 << 20


def read_in_parts(pool: ThreadPoolExecutor, descriptor: int, size: int, readers: int) -> None:
    """Read the whole file, each reader an equal part; a thread that reads leaves Python to the others."""
    part = -(-size // readers)
    starts = range(0, size, part)
    list(pool.map(lambda start: read_file(descriptor, min(size, start + part), start), starts))


def disk_bandwidth(pool: ThreadPoolExecutor, path: str, size: int) -> float | Absent:
    """Bytes per second of readers that go past the page cache."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECT", 0))
    except OSError as error:
        return Absent(f"this file system cannot be read past the page cache: {error.strerror}")
    buffers = [mmap.mmap(-1, DISK_BLOCK) for _ in range(DISK_READERS)]  # aligned to pages, as it asks for

    def read_every_eighth_block(first: int) -> None:
        for start in range(first * DISK_BLOCK, size, DISK_READERS * DISK_BLOCK):
            os.preadv(descriptor, [buffers[first]], start)

    seconds = []
    try:
        for _ in range(5):
            begin = time.perf_counter()
            list(pool.map(read_every_eighth_block, range(DISK_READERS)))
            seconds.append(time.perf_counter() - begin)
    except OSError as error:
        return Absent(f"this file system cannot be read past the page cache: {error.strerror}")
    finally:
        os.close(descriptor)
    return size / min(seconds)


def read_file(descriptor: int, end: int, start: int = 0) -> None:
    buffer = memoryview(bytearray(1 << 20))
    for offset in range(start, end, len(buffer)):
        os.preadv(descriptor, [buffer[: end - offset]], offset)


def forget_pages(descriptor: int, size: int) -> None:
    """Drop a file from the page cache, and check that it is gone: a file on tmpfs stays in memory."""
    if not hasattr(os, "posix_fadvise"):
        raise skip_exception("this system has no way to drop one file from its page cache")
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    kept = cached_ratio(descriptor, size)
    if kept > 0.01:
        raise skip_exception(
            f"the file cannot be made cold: the kernel kept {format_percent(kept)} of it in its page cache"
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

    cost_s = declare_cost(smoke=0.5, real=8)
    default_suite = False
    params = (["gzip", "zlib", "lzma", "bz2", "lz4"], [DATA.packed_bytes], [SIZES.name])
    param_names = ("codec", "bytes", "sizes")

    @metrics(
        Metric("decompress_time", "seconds/GB"),
        Metric("bandwidth", "bytes/s", "higher"),
        Metric("compressed_size", "ratio"),
    )
    def measure_decompress(self, codec: str, size: int, sizes: str) -> Measurement:
        text = generate_text(size)
        if codec == "lz4" and importlib.util.find_spec("lz4") is None:
            raise skip_exception("lz4 is not installed; `pip install 'perfci[suites]'` brings it")
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
    "lz4": (lambda text: load_lz4().compress(text), lambda packed: load_lz4().decompress(packed)),
}


def load_lz4() -> Any:
    """The library of lz4's frames, which is no part of Python."""
    return importlib.import_module("lz4.frame")


class Preprocess(Bench):
    """Work on the CPU that turns documents into tokens and batches, and notes into steps of a grid."""

    cost_s = declare_cost(smoke=0.6, real=5)
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

    @metrics(*declare_stage_metrics("clean", "tokenise", "pack"), Metric("time_per_1k_documents", "seconds"))
    def measure_prepare(self, sizes: str) -> Measurement:
        """Raw documents to packed sequences, stage by stage: clean, tokenise, pack to a fixed length."""
        documents = [generate_markup(400, seed) for seed in range(DATA.documents)]
        tokeniser = Tokeniser.learn([clean_document(document) for document in documents[:20]])
        stages = Stages(Cpu())
        for run in range(PREPARE_RUNS + 1):
            if run == 1:
                stages = Stages(Cpu())  # the first run warms up
            with stages:
                with stages("clean"):
                    texts = [clean_document(document) for document in documents]
                with stages("tokenise"):
                    tokens = [tokeniser.encode(text) for text in texts]
                with stages("pack"):
                    packed = pack_sequences(tokens, tokeniser.vocabulary, TextDataset.TOKENS)
        if int((packed >= 0).sum()) != sum(map(len, tokens)):
            raise ParityFailed("packing lost tokens")
        readings = stages.readings(("clean", "tokenise", "pack"))
        parts = [readings[name] for name in ("clean", "tokenise", "pack")]
        seconds = [sum(run) for run in zip(*(part.samples for part in parts), strict=True)]
        per_thousand = [second * 1000 / len(documents) for second in seconds]
        return Measurement({**readings, "time_per_1k_documents": informational(*per_thousand)})

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

    measure_tokenise.default_suite = measure_quantise.default_suite = False  # type: ignore[attr-defined]


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

    @property
    def vocabulary(self) -> dict[str, int]:
        """The number of every byte and of every pair that is merged."""
        pieces = [chr(code) for code in range(256)] + ["".join(pair) for pair in self.ranks]
        return {piece: number for number, piece in enumerate(pieces)}

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


PREPARE_RUNS = 7
MARKUP = re.compile(r"<[^>]*>")


def generate_markup(size: int, seed: int) -> str:
    """Text as a crawler finds it: marked up, with capitals, double spaces and letters of full width."""
    words = generate_text(size, seed).decode().split(" ")
    return "".join(f"<p class='a'>{word.title()}</p>  \uff21&amp; " for word in words)


def clean_document(document: str) -> str:
    """Drop markup and entities, normalise letters (Unicode's NFKC), lower them, and join by single spaces."""
    text = unicodedata.normalize("NFKC", html.unescape(MARKUP.sub(" ", document)))
    return " ".join(text.lower().split())


def pack_sequences(tokenised: list[list[str]], vocabulary: dict[str, int], length: int) -> Tensor:
    """Lay token numbers end to end into rows of equal length; the last row is filled up with -1."""
    numbers = [vocabulary[token] for tokens in tokenised for token in tokens]
    numbers += [-1] * (-len(numbers) % length)
    return torch.tensor(numbers).view(-1, length)


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
