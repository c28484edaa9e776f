"""The data suite measures waiting, copying, reading and preparing, and says what this machine cannot do."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from asv_runner.benchmarks.mark import SkipNotImplemented
from torch import Tensor

from benchmarks import data
from benchmarks.data import Decompress, HostToDevice, Loader, Preprocess, Read, Tokeniser
from perfci.bench import Reading
from perfci.bench.parity import ParityFailed

on_cpu = pytest.mark.skipif(data.DEVICE != "cpu", reason="asks for what only a CPU refuses")
MEMORY = Path("/dev/shm")
DATA = dataclasses.replace(
    data.DATA,
    loader_steps=3,
    loader_batch=2,
    epochs=2,
    file_bytes=1 << 20,
    packed_bytes=1 << 14,
    documents=3,
    notes=100,
    timing={"warmup_s": 0.01, "budget_s": 0.02},
)


one_core_may_do = pytest.mark.filterwarnings("ignore:This DataLoader will create 2 worker processes")
"""torch advises a machine against more workers than it has cores."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, working_folder: Path) -> None:
    monkeypatch.setattr(data, "DATA", DATA)
    monkeypatch.setattr(
        data, "host_timing", lambda *args, **more: data.time_blocks(*args, **more, **DATA.timing)
    )


@one_core_may_do
@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_reports_its_waiting_apart_from_its_start_up(workers: int) -> None:
    rows, _ = measured(Loader(), "loader", workers, DATA.prefetch[0], "pageable", "restarted", "smoke")

    assert set(rows) - {"cpu_data_time"} == {"data_time", "data_stall", "loader_startup", "step_time"}
    assert ("cpu_data_time" in rows) == (workers == 0)
    assert all(0 < stall < 1 for stall in rows["data_stall"]["samples"])
    assert len(rows["loader_startup"]["samples"]) == DATA.epochs


def test_a_starved_loop_stalls_for_as_long_as_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(data.time, "perf_counter", lambda: clock[0])

    def batches() -> Iterator[Tensor]:
        clock[0] += 10.0  # workers start
        for _ in range(DATA.loader_steps + 1):
            yield torch.zeros(1)
            clock[0] += 3.0

    def step(_: Tensor) -> None:
        clock[0] += 1.0

    epoch = data.run_epoch(batches(), step)

    assert epoch.startup_s == 10.0
    assert (epoch.waited_s, epoch.loop_s) == (3.0 * DATA.loader_steps, 4.0 * DATA.loader_steps)


def test_batches_that_were_fetched_ahead_hide_no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(data.time, "perf_counter", lambda: clock[0])

    def batches() -> Iterator[Tensor]:
        for place in range(DATA.loader_steps + 5):
            yield torch.zeros(1)
            clock[0] += 0.0 if place < 4 else 3.0  # four were ready when the epoch began

    def step(_: Tensor) -> None:
        clock[0] += 1.0

    epoch = data.run_epoch(batches(), step, fetched_ahead=4)

    assert epoch.waited_s / epoch.loop_s == 0.75


@one_core_may_do
def test_persistent_workers_start_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = data.create_loader(1, 2, persistent=True)
    for _ in range(2):
        data.run_epoch(loader, lambda batch: None, fetched_ahead=2)
    first = [worker.pid for worker in loader._iterator._workers]
    data.run_epoch(loader, lambda batch: None, fetched_ahead=2)

    assert [worker.pid for worker in loader._iterator._workers] == first


@one_core_may_do
@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_crops_identically_in_every_process(workers: int) -> None:
    torch.manual_seed(0)
    once = list(data.create_loader(workers, 2))
    torch.manual_seed(0)
    again = list(data.create_loader(workers, 2))

    assert len(once) == DATA.loader_steps + 1 + 2 * workers * 2
    assert all(torch.equal(item, other) for item, other in zip(once, again, strict=True))


@on_cpu
def test_pinning_and_prefetching_are_skipped_where_they_have_no_effect() -> None:
    with pytest.raises(SkipNotImplemented, match="torch sees no device but the CPU"):
        Loader().measure_loader(2, DATA.prefetch[0], "pinned", "restarted", "smoke")
    with pytest.raises(SkipNotImplemented, match="without workers nothing is fetched ahead"):
        Loader().measure_loader(0, 99, "pageable", "restarted", "smoke")
    with pytest.raises(SkipNotImplemented, match="there are none that could persist"):
        Loader().measure_loader(0, DATA.prefetch[0], "pageable", "persistent", "smoke")


@on_cpu
def test_without_a_device_a_copy_is_a_memcpy() -> None:
    rows, _ = measured(HostToDevice(), "copy", "pageable", "blocking", 1 << 20, "smoke")

    assert rows["copy_time"]["status"] == rows["bandwidth"]["status"] == "ok"
    for name in ("step_with_copy_time", "exposed_copy_time", "pageable_copy_bytes"):
        assert rows[name]["reason"] == "nothing is copied to a device: torch sees none but the CPU"


@on_cpu
@pytest.mark.parametrize(
    ("memory", "copy", "reason"),
    [
        ("pinned", "blocking", "pinned memory"),
        ("pinned", "non_blocking", "pinned memory"),
        ("pageable", "non_blocking", "no copy can be left"),
    ],
)
def test_a_copy_that_needs_a_device_is_skipped(memory: str, copy: str, reason: str) -> None:
    with pytest.raises(SkipNotImplemented, match=reason):
        HostToDevice().measure_copy(memory, copy, 1 << 20, "smoke")


@on_cpu
def test_a_copy_to_a_device_is_timed_alone_and_beside_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = FakeStream()
    monkeypatch.setattr(torch.cuda, "Stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", FakeStream)
    monkeypatch.setattr(data, "STEP_EDGE", 8)

    copied = data.copy_to_device("pageable", "non_blocking", 1 << 16)

    assert set(copied.readings) == {metric.name for metric in HostToDevice.measure_copy.metrics}
    assert copied.flags[-1] == "non_blocking was silently synchronous"
    assert stream.waited > 0


@dataclasses.dataclass
class FakeStream:
    waited: int = 0

    def wait_stream(self, _: FakeStream) -> None:
        self.waited += 1


def test_a_warm_read_comes_from_the_page_cache() -> None:
    rows, _ = measured(Read(), "read", "warm", DATA.file_bytes, "smoke")

    assert {"read_time", "cpu_read_time", "bandwidth"} == set(rows)
    assert rows["read_time"]["unit"] == "seconds/GB"


def test_a_file_dropped_from_the_page_cache_is_cold(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(1 << 20))
    with file.open("r+b") as opened:
        os.fsync(opened.fileno())
        before = data.cached_ratio(opened.fileno(), 1 << 20)

        try:
            data.forget_pages(opened.fileno(), 1 << 20)
        except SkipNotImplemented as why:
            pytest.skip(str(why))

        assert before == 1
        assert data.cached_ratio(opened.fileno(), 1 << 20) <= 0.01


@pytest.mark.skipif(not MEMORY.is_dir(), reason="needs a file system in memory")
def test_a_file_on_tmpfs_is_never_reported_as_cold() -> None:
    with (MEMORY / f"perfci-{os.getpid()}").open("w+b") as file:
        os.unlink(file.name)
        file.write(bytes(1 << 20))
        file.flush()

        with pytest.raises(SkipNotImplemented, match="kept 100 % of it in its page cache"):
            data.forget_pages(file.fileno(), 1 << 20)


def test_a_cold_read_is_timed_by_the_wall_clock_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "forget_pages", lambda descriptor, size: None)

    rows, _ = measured(Read(), "read", "cold", DATA.file_bytes, "smoke")

    assert set(rows) == {"read_time", "bandwidth"}
    assert rows["read_time"]["clock"] == "wall"


HAS_LZ4 = importlib.util.find_spec("lz4") is not None


@pytest.mark.parametrize("codec", [codec for codec in data.CODECS if codec != "lz4" or HAS_LZ4])
def test_a_codec_is_timed_per_gigabyte_that_comes_out(codec: str) -> None:
    rows, _ = measured(Decompress(), "decompress", codec, DATA.packed_bytes, "smoke")

    assert rows["decompress_time"]["unit"] == "seconds/GB"
    assert 0 < rows["compressed_size"]["samples"][0] < 1
    for seconds_per_gb, bandwidth in zip(
        rows["decompress_time"]["samples"], rows["bandwidth"]["samples"], strict=True
    ):
        assert seconds_per_gb * bandwidth == pytest.approx(1e9)


def test_a_codec_that_loses_something_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(data.CODECS, "zlib", (bytes, lambda packed: packed[:-1]))

    with pytest.raises(ParityFailed, match="zlib does not give back"):
        Decompress().measure_decompress("zlib", DATA.packed_bytes, "smoke")


def test_tokens_are_counted_exactly_and_join_to_the_text() -> None:
    rows, _ = measured(Preprocess(), "tokenise", "smoke")
    document = data.generate_text(300).decode()
    tokeniser = Tokeniser.learn([document])

    assert rows["tokens"]["clock"] == "exact"
    assert rows["cpu_time_per_1k_documents"]["samples"][0] > 0
    assert "".join(tokeniser.encode(document)) == document
    assert len(tokeniser.encode(document)) < len(document)


def test_pairs_merge_in_the_order_they_were_learned() -> None:
    tokeniser = Tokeniser({("l", "o"): 0, ("o", "w"): 1, ("lo", "w"): 2})

    assert tokeniser.encode("low bow") == ["low", " ", "b", "ow"]
    assert list(Tokeniser.learn(["ab ab ab cd"]).ranks)[:2] == [("a", "b"), (" ", "ab")]


def test_both_quantisation_variants_agree_or_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = measured(Preprocess(), "quantise", "smoke")
    monkeypatch.setattr(data, "quantise_loop", lambda onsets: [int(onset / data.STEP_S) for onset in onsets])

    assert {"loop_time", "batched_time", "speedup"} < set(rows)
    with pytest.raises(ParityFailed, match="different steps"):
        Preprocess().measure_quantise("smoke")


def test_scaling_a_reading_scales_both_clocks() -> None:
    scaled = data.scale_reading(Reading((1.0, 2.0), cpu=(0.5, 1.0)), 10)

    assert scaled.samples == [10.0, 20.0]
    assert scaled.cpu == [5.0, 10.0]


def measured(bench: Any, name: str, *parameters: object) -> tuple[dict[str, Any], list[str]]:
    report = getattr(bench, f"measure_{name}")(*parameters)
    return {row["name"]: row for row in report["metrics"]}, report["flags"]


def test_parallel_readers_read_every_byte_once(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = os.urandom(3 * (1 << 20) + 17)
    Path("file").write_bytes(content)
    read: list[tuple[int, int]] = []
    original = data.read_file
    monkeypatch.setattr(
        data, "read_file", lambda fd, end, start: (read.append((start, end)), original(fd, end, start))
    )

    with open("file", "rb") as file, data.ThreadPoolExecutor(4) as pool:
        data.read_in_parts(pool, file.fileno(), len(content), 4)

    starts, ends = zip(*sorted(read), strict=True)
    assert (starts[0], ends[-1], starts[1:]) == (0, len(content), ends[:-1])


def test_lz4_is_skipped_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(SkipNotImplemented, match=r"lz4 is not installed; `pip install 'perfci\[suites\]'`"):
        Decompress().measure_decompress("lz4", 1 << 12, "smoke")


def test_documents_are_cleaned_tokenised_and_packed() -> None:
    rows, _ = measured(Preprocess(), "prepare", "smoke")

    assert data.clean_document("<p class='a'>Tea</p>  \uff21&amp;") == "tea a&"
    assert rows["time_per_1k_documents"]["samples"][0] > 0
    assert sum(rows[f"{stage}_share"]["samples"][0] for stage in ("clean", "tokenise", "pack")) > 0.9
