"""A hostile file of any format is refused in one sentence, in bounded memory and without side effects."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from foreign_files import PROJECT

from perfci.formats import run_builder, value_parsing
from perfci.formats.format_registry import READER_MODULES, read_imported_runs
from perfci.formats.format_types import ImportDefaults
from perfci.model import Commit, PerfciError

MIB = 2**20

FILES = [name for name in READER_MODULES if name not in ("asv", "perfci")]

DEEP = b"[" * 200_000

HOSTILE: dict[str, Callable[[], bytes]] = {
    "a bomb": lambda: gzip.compress(b" " * (value_parsing.MAX_BYTES + MIB)),
    "nothing": lambda: b"",
    "nested deeply": lambda: DEEP,
    "half a surrogate": lambda: b'{"results": [], "benchmarks": [], "a": "\\ud800"}',
    "a zero character": lambda: b'[{"name": "\\u0000"}]',
    "an integer of 5,000 digits": lambda: b'{"benchmarks": [' + b"9" * 5000 + b"]}",
    "cut off": lambda: gzip.compress(b'{"benchmarks": []}')[:-10],
    "no text": lambda: b"\xff\xfe\x00",
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("hostile", HOSTILE)
def test_refuses_a_hostile_file_in_one_sentence(tmp_path: Path, name: str, hostile: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(HOSTILE[hostile]())

    with pytest.raises(PerfciError) as refused:
        list(read_imported_runs(path, name, ImportDefaults(PROJECT, Commit("abcdef1")), lambda _: None))

    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_grid_of_names_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "many.json"
    entries = [
        {"name": f"b{number}", "unit": "s", "value": 1} for number in range(run_builder.MAX_RESULTS + 1)
    ]
    path.write_text(json.dumps(entries))

    with pytest.raises(PerfciError, match=r"holds too many results: the limit is 10000"):
        list(read_imported_runs(path, "generic", ImportDefaults(PROJECT, Commit("abcdef1")), lambda _: None))


def test_the_number_of_processes_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "many.json"
    path.write_text(
        json.dumps({"results": [{"command": "x", "times": [1.0] * (run_builder.MAX_PROCESSES + 1)}]})
    )

    with pytest.raises(PerfciError, match=r"holds more than 10000 runs of one command"):
        list(
            read_imported_runs(path, "hyperfine", ImportDefaults(PROJECT, Commit("abcdef1")), lambda _: None)
        )


READ = """
import re, sys
from pathlib import Path
from perfci.formats.format_types import ImportDefaults
from perfci.formats.format_registry import read_imported_runs
from perfci.model import Commit
list(read_imported_runs(Path(sys.argv[1]), "vllm", ImportDefaults("p", Commit("abcdef1")), lambda _: None))
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("part", [4, pytest.param(1, marks=pytest.mark.proof)])
def test_the_largest_file_is_read_within_two_gibibytes(tmp_path: Path, part: int) -> None:
    path = tmp_path / "large.json"
    times = b"1.5," * (value_parsing.MAX_BYTES // 4 // part - 100)
    path.write_bytes(b'{"avg_latency": 1.5, "percentiles": {}, "latencies": [' + times + b"1.5]}")

    done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)

    assert int(done.stdout) < 2 * 2**30 / part
