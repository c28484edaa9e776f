"""Sweep histories and comparisons over kinds of noise that the rules were not chosen on.

Run as ``python -m tools.study_robustness``; ``--page docs/studies/robustness-study.md`` puts the tables
into that page, ``--quick`` takes a fifth of the cases, and names of sweeps take only those. It fails where
a limit is broken: each table says its own.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.sweep_comparisons import sweep_batches, sweep_failures, sweep_mode_mix, sweep_ticks
from tools.sweep_histories import sweep_busy_code, sweep_length, sweep_memory
from tools.sweep_table import SweepTable
from tools.write_study_page import describe_circumstances, replace_figures


@dataclass(frozen=True)
class Sweep:
    """A sweep, and how many cases each of its rows takes."""

    run: Callable[[int], SweepTable]
    cases: int
    quick_cases: int


SWEEPS: Mapping[str, Sweep] = {
    "length": Sweep(sweep_length, 200, 40),
    "memory": Sweep(sweep_memory, 24, 8),
    "busy": Sweep(sweep_busy_code, 100, 25),
    "mix": Sweep(sweep_mode_mix, 300, 60),
    "ticks": Sweep(sweep_ticks, 400, 100),
    "failures": Sweep(sweep_failures, 100, 15),
    "batches": Sweep(sweep_batches, 2000, 400),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweeps", nargs="*", default=list(SWEEPS), help=f"of {', '.join(SWEEPS)}")
    parser.add_argument("--quick", action="store_true", help="fewer cases; a limit may be missed by chance")
    parser.add_argument("--page", type=Path, help="a page to put the tables into")
    chosen = parser.parse_args()
    if unknown := set(chosen.sweeps) - set(SWEEPS):
        parser.error(f"no sweep is called {', '.join(sorted(unknown))}; there are {', '.join(SWEEPS)}")
    load, tables = os.getloadavg()[0], []
    for name in chosen.sweeps:
        sweep = SWEEPS[name]
        tables.append(sweep.run(sweep.quick_cases if chosen.quick else sweep.cases))
        print(f"{tables[-1].format_markdown()}\n", flush=True)
    if chosen.page:
        sections = [f"{describe_circumstances(load)}.", *(table.format_markdown() for table in tables)]
        replace_figures(chosen.page, "\n\n".join(sections))
    sys.exit("\n".join(sentence for table in tables for sentence in table.broken) or 0)


if __name__ == "__main__":
    main()
