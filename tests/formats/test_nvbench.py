"""Files of nvbench, written by hand after its code, since it needs CUDA."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from foreign_files import FILES, named, read

from perfci.model import Clock, PerfciError, ProcessBoundaries, Status

FOLDER = FILES / "nvbench"


def test_samples_beside_the_file_are_read() -> None:
    document, _ = read(FOLDER / "jsonbin.json", "nvbench")

    [process] = named(document)["copy(256) · time"].processes
    assert (process.samples, process.clock) == ((1.0, 2.0, 4.0), Clock.DEVICE)
    assert document.run.machine.label == "1x NVIDIA H100 80GB HBM3"


def test_a_skipped_state_gives_its_reason() -> None:
    skipped = named(read(FOLDER / "jsonbin.json", "nvbench")[0])["copy(2048) · time"]

    assert (skipped.status, skipped.reason) == (Status.SKIPPED, "too many threads")


def test_rates_are_shown_beside_the_time() -> None:
    results = named(read(FOLDER / "jsonbin.json", "nvbench")[0])

    assert results["copy(256) · bytes_per_second"].processes[0].clock is Clock.INFORMATIONAL


def test_an_older_file_holds_means_only() -> None:
    [result] = read(FOLDER / "2021.json", "nvbench")[0].run.results

    assert result.summary is not None
    assert (result.summary.value, result.summary.n, result.boundaries) == (
        0.0023,
        128,
        ProcessBoundaries.UNKNOWN,
    )


def moved(tmp_path: Path, filename: str) -> Path:
    content = (FOLDER / "jsonbin.json").read_text().replace("jsonbin.json-bin/0.bin", filename)
    (tmp_path / "jsonbin.json").write_text(content)
    return tmp_path / "jsonbin.json"


@pytest.mark.parametrize("name", ["jsonbin.json-bin/0.bin", "/etc/passwd", "../../0.bin", "link/0.bin", ""])
def test_samples_elsewhere_are_not_looked_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to(FOLDER / "jsonbin.json-bin")

    document, warnings = read(moved(tmp_path, name), "nvbench")

    assert named(document)["copy(256) · time"].processes == ()
    assert any("samples file not found next to the JSON" in warning for warning in warnings)


def test_a_truncated_sample_file_is_left_out_and_reported(tmp_path: Path) -> None:
    shutil.copytree(FOLDER / "jsonbin.json-bin", tmp_path / "jsonbin.json-bin")
    (tmp_path / "jsonbin.json-bin" / "0.bin").write_bytes(b"\x00" * 9)

    _, warnings = read(moved(tmp_path, "jsonbin.json-bin/0.bin"), "nvbench")

    assert "0.bin holds 2 samples, but 3 were expected; skipped" in warnings


def test_devices_are_needed(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps({"devices": [], "benchmarks": []}))

    with pytest.raises(PerfciError, match="is not a file of nvbench: it has no devices with benchmarks"):
        read(tmp_path / "x.json", "nvbench")
