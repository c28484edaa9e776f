"""Ten demos in a row, five of them on a loaded machine; prints the table of docs/studies/demo-study.md.

Run as ``make study``; it takes an hour or more.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

LIMITS_S = {"quiet": 300, "loaded": 480}

NEIGHBOUR = """
import random, time
random.seed()
block = bytearray(64_000_000)
while True:
    end = time.time() + random.uniform(4, 25)
    while time.time() < end:
        block[:] = block[::-1]
        sum(i * i for i in range(100_000))
    time.sleep(random.uniform(0, 4))
"""


@dataclass(frozen=True)
class Trial:
    load: str
    exit_code: int
    seconds: float
    found: str
    false_alarms: str
    told: str


def run_demo(load: str) -> Trial:
    """One demo from nothing, as a new user would run it."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PERFCI_LOCK": f"{folder}/lock"}
        command = [sys.executable, "-m", "perfci.cli", "demo", "--no-serve"]
        begin = time.monotonic()
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - begin
    match = re.search(
        r"(\d+ of \d+) planted changes found at their own commit, (\d+) false alarms", done.stdout
    )
    result, false_alarms = match.groups() if match else ("no table", "")
    return Trial(load, done.returncode, seconds, result, false_alarms, done.stdout + done.stderr)


def format_table(trials: list[Trial]) -> str:
    lines = [
        "| run | machine | exit | time | planted changes found | false alarms |",
        "|---|---|---|---|---|---|",
    ]
    for number, item in enumerate(trials, 1):
        late = "" if item.seconds <= LIMITS_S[item.load] else " (over the limit)"
        lines.append(
            f"| {number} | {item.load} | {item.exit_code} | {item.seconds:.0f} s{late} | {item.found} "
            f"| {item.false_alarms} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quiet", type=int, default=5)
    parser.add_argument("--loaded", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="a folder for what each demo printed")
    options = parser.parse_args()
    trials: list[Trial] = []
    for load, count in (("quiet", options.quiet), ("loaded", options.loaded)):
        neighbours = [
            subprocess.Popen([sys.executable, "-c", NEIGHBOUR]) for _ in range(2 if load == "loaded" else 0)
        ]
        try:
            for _ in range(count):
                trials.append(run_demo(load))
                print(format_table(trials).splitlines()[-1], flush=True)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / f"{len(trials)}-{load}.txt").write_text(trials[-1].told)
        finally:
            for neighbour in neighbours:
                neighbour.kill()
                neighbour.wait()
    print("\n" + format_table(trials))
    sys.exit(
        0
        if all(
            each_trial.exit_code == 0 and each_trial.seconds <= LIMITS_S[each_trial.load]
            for each_trial in trials
        )
        else 1
    )


if __name__ == "__main__":
    main()
