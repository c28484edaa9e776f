"""Plain asv sees one track per metric, and every cell is measured once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from asv_runner.benchmarks.mark import SkipNotImplemented

from perfci.bench import Absent, Bench, Metric, exact, metrics

LOG: list[int] = []


class Sample(Bench):
    params = {"n": [1, 2, 99]}

    @metrics(Metric("time", "seconds"), Metric("peak", "bytes"), Metric("power", "watts"))
    def measure_it(self, n: int) -> dict[str, Any]:
        LOG.append(n)
        if n == 99:
            raise ValueError("99 is too many")
        return {"time": [1.0 * n, 2.0 * n], "peak": exact(len(LOG)), "power": Absent("no NVML here")}


@pytest.fixture(autouse=True)
def _shared_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory that asv gives to all benchmarks with one setup_cache."""
    monkeypatch.chdir(tmp_path)
    LOG.clear()


def test_makes_a_track_of_every_metric() -> None:
    tracks = [name for name in dir(Sample) if name.startswith("track_")]

    assert tracks == ["track_it_peak", "track_it_power", "track_it_time"]
    assert Sample.track_it_peak.unit == "bytes"  # type: ignore[attr-defined]


def test_turns_a_mapping_of_parameters_into_asvs_two_lists() -> None:
    assert Sample.param_names == ("n",)
    assert Sample.params == ([1, 2, 99],)


def test_measures_once_and_reads_the_others_from_what_it_left() -> None:
    bench: Any = Sample()

    assert bench.track_it_time(2) == {"samples": [2.0, 4.0], "number": 1}
    assert bench.track_it_peak(2) == {"samples": [1.0], "number": 1}
    assert LOG == [2]


def test_measures_again_in_the_next_round() -> None:
    bench: Any = Sample()

    peaks = [bench.track_it_peak(1)["samples"], bench.track_it_peak(1)["samples"]]

    assert peaks == [[1.0], [2.0]]


def test_skips_a_metric_that_is_absent() -> None:
    bench: Any = Sample()

    with pytest.raises(SkipNotImplemented, match="no NVML here"):
        bench.track_it_power(1)


def test_fails_every_metric_of_a_cell_that_raised_without_raising_it_anew() -> None:
    bench: Any = Sample()

    for track in (bench.track_it_time, bench.track_it_peak):
        with pytest.raises(RuntimeError, match="ValueError: 99 is too many"):
            track(99)
    assert LOG == [99]


def test_does_not_repeat_a_crash_for_every_metric() -> None:
    bench: Any = Sample()
    bench.track_it_time(1)
    (result,) = Path().glob("*.json")
    result.unlink()  # as when the process that measured was killed after it had begun

    with pytest.raises(
        RuntimeError, match=r"the process that measured Sample.measure_it ended before it had a result"
    ):
        bench.track_it_peak(1)


@pytest.mark.slow
def test_a_real_asv_measures_every_cell_once(tmp_path: Path) -> None:
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "__init__.py").touch()
    (tmp_path / "suite" / "thing.py").write_text(
        "import os\n"
        "from perfci.bench import Bench, Metric, exact, metrics\n"
        "class Thing(Bench):\n"
        "    params = {'n': [1, 2]}\n"
        "    @metrics(Metric('time', 'seconds'), Metric('peak', 'bytes'))\n"
        "    def measure_it(self, n):\n"
        f"        open({str(tmp_path / 'log')!r}, 'a').write(f'{{n}}\\n')\n"
        "        return {'time': [1.0, 2.0], 'peak': exact(5)}\n"
    )
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "Start"], check=True)
    (tmp_path / "asv.conf.json").write_text(
        json.dumps(
            {
                "version": 1,
                "project": "x",
                "repo": ".",
                "branches": ["main"],
                "benchmark_dir": "suite",
                "environment_type": "virtualenv",
            }
        )
    )
    asv, environment = [sys.executable, "-m", "asv"], {**os.environ, "HOME": str(tmp_path)}
    subprocess.run([*asv, "machine", "--yes"], cwd=tmp_path, env=environment, check=True, capture_output=True)

    options = ["-E", f"existing:{sys.executable}", "--launch-method", "forkserver"]
    done = subprocess.run(
        [*asv, "run", *options], cwd=tmp_path, env=environment, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted((tmp_path / "log").read_text().split()) == ["1", "2"]
