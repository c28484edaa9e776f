"""Checks of the reference suites: smoke, compile modes, one rank, equal processes, a whole round."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tools.gpu_checks.check_definition import CheckGroup, CheckResult, GpuCheck

ROOT = Path(__file__).parents[2]
FLOOR_LIMIT = 0.003
PAIRS = 10
STARTED_TOGETHER = 3
ROUND_LIMIT_S = 600.0
SMOKE_BUDGET = "2m"
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune")

ONE_STEP_PROCESS = """
import fcntl, json, statistics, sys
from benchmarks.training import TrainingSetup
from benchmarks.workload_sizes import SIZES
from perfci.bench.call_counts import count_call
from perfci.bench.timers.timed_blocks import time_blocks
turn = open(sys.argv[1])  # processes import side by side, and measure one after the other
fcntl.flock(turn, fcntl.LOCK_EX)
setup = TrainingSetup(SIZES, "bf16", batch=SIZES.batches[0])
setup.step()
timing = time_blocks(setup.step, warmup_s=1.0, budget_s=1.0)
counts = count_call(setup.step)
print(json.dumps([statistics.median(timing.judged_samples), counts.flops, counts.operators,
                  counts.peak_tensor_bytes]))
"""

ONE_RANK_PROCESS = """
from benchmarks.distributed import DataParallel
from benchmarks.workload_sizes import SIZES
for strategy in ("ddp", "zero1", "fsdp2"):
    DataParallel.measure_training.__wrapped__(DataParallel(), strategy, "weak", 1, SIZES.name)
    print(strategy)
"""

COMPILE_PROCESS = """
import sys
from benchmarks.compilation import Compile
from benchmarks.workload_sizes import COMPILED, SIZES
measured = Compile.measure_compile.__wrapped__(Compile(), sys.argv[1], SIZES.name)
print(measured.readings["compile_cold"].samples[0], COMPILED.cap_s)
"""


def run_python(code: str, *arguments: str, smoke: bool = False) -> str:
    """Run code in a fresh process; its output, or ``RuntimeError`` with the end of what it said."""
    environment = {**os.environ, "PERFCI_SMOKE": "1"} if smoke else dict(os.environ)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout


def run_perfci(*arguments: str) -> Any:
    """Run a command of perfci on a store of its own; what it writes as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        report, store = Path(folder) / "report.json", f"sqlite:///{folder}/perfci.db"
        command = [sys.executable, "-m", "perfci.cli", *arguments, "--db", store, "--json", str(report)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if not report.exists():
            raise RuntimeError((done.stderr or done.stdout).strip().splitlines()[-1])
        return json.loads(report.read_text())


def check_smoke_suite() -> CheckResult:
    """Every cell at smoke sizes, once, as far as its budget goes."""
    report = run_perfci("run", "--suite", "full", "--smoke", "--rounds", "1", "--budget", SMOKE_BUDGET)
    bad = {name: count for name, count in report["statuses"].items() if name not in ("ok", "skipped")}
    left_out = len(report.get("left_out", []))
    return CheckResult(
        f"{report['processes']} processes, {bad or 'none failed'}; {left_out} cells left out", not bad
    )


def check_round_time() -> CheckResult:
    """What a round of the default suite is planned to take here."""
    report = run_perfci("run", "--suite", "default", "--rounds", "1", "--plan")
    planned_s = sum(cell["cost_s"] for cell in report["cells"] if cell["in_default"])
    return CheckResult(f"{planned_s:.0f} s planned", 0 < planned_s <= ROUND_LIMIT_S)


def check_compile_modes() -> CheckResult:
    """Cold compilations of a small step in every mode."""
    seconds, caps = {}, set()
    for mode in COMPILE_MODES:
        took_s, cap_s = map(float, run_python(COMPILE_PROCESS, mode, smoke=True).split()[-2:])
        seconds[mode] = took_s
        caps.add(cap_s)
    shown = ", ".join(f"{mode} {took_s:.0f} s" for mode, took_s in seconds.items())
    return CheckResult(f"{shown} of {min(caps):.0f} s", max(seconds.values()) < min(caps))


def check_one_rank() -> CheckResult:
    """The distributed cells that one GPU can run."""
    strategies = run_python(ONE_RANK_PROCESS, smoke=True).split()
    return CheckResult(f"{', '.join(strategies)} measured", strategies[-3:] == ["ddp", "zero1", "fsdp2"])


def check_equal_processes() -> CheckResult:
    """Twenty processes of one step in pairs: the spread of what lies between the two of a pair."""
    with tempfile.NamedTemporaryFile() as turn, ThreadPoolExecutor(STARTED_TOGETHER) as started:
        printed = started.map(lambda _: run_python(ONE_STEP_PROCESS, turn.name), range(2 * PAIRS))
        rows = [json.loads(text.splitlines()[-1]) for text in printed]
    return summarise_equal_processes(rows)


def summarise_equal_processes(rows: list[list[float]]) -> CheckResult:
    """The half-width of the 95 % interval of the pairs' mean log ratio, and whether all counts are equal."""
    ratios = [math.log(second[0] / first[0]) for first, second in zip(rows[::2], rows[1::2], strict=True)]
    floor = 1.96 * statistics.stdev(ratios) / math.sqrt(len(ratios))
    are_equal = len({tuple(row[1:]) for row in rows}) == 1
    counts = "counts equal" if are_equal else "counts differ"
    return CheckResult(
        f"floor {floor:.2%} of {len(ratios)} pairs, {counts}", floor <= FLOOR_LIMIT and are_equal
    )


SUITE_CHECKS = CheckGroup(
    "suites",
    140,
    [
        GpuCheck(
            "smoke run of the full suite, two minutes of it",
            "0 failed",
            "the status of every process",
            check_smoke_suite,
        ),
        GpuCheck(
            "time of a whole default round", "at most 600 s", "the plan of perfci run", check_round_time
        ),
    ],
)

COMPILE_CHECKS = CheckGroup(
    "compile",
    60,
    [
        GpuCheck("compile modes", "below their timeout", "three cold compilations", check_compile_modes),
        GpuCheck("distributed cells of one rank", "all measured", "DDP, ZeRO-1 and FSDP2", check_one_rank),
    ],
)

NOISE_CHECKS = CheckGroup(
    "noise",
    120,
    [
        GpuCheck(
            "ten pairs of equal processes",
            "floor at most 0.3 %, exact counts equal",
            "twenty fresh processes of one step",
            check_equal_processes,
        ),
    ],
)
