"""Count the processes that a search of 64 commits takes for a step of 10 % at 2 % noise.

Run as ``python -m tools.study_bisect_cost``; it fails where the costliest search takes longer than promised,
on a clock that is simulated: 5 seconds for a process, and as much for preparing each commit.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from dataclasses import dataclass

from perfci.verdicts.search.commit_search import CommitSearch, SearchOutcome

COMMITS, STEP, NOISE = 64, 0.10, 0.02
PROCESS_S, PREPARING_S, MOST_S = 5.0, 5.0, 25 * 60.0


@dataclass(frozen=True, slots=True)
class SearchCost:
    """What one search took, and whether it named the culprit."""

    processes: int
    commits: int
    is_right: bool

    @property
    def seconds(self) -> float:
        return self.processes * PROCESS_S + self.commits * PREPARING_S


def main() -> int:
    """Search with each seed, and print what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    costs = [search(seed) for seed in range(parser.parse_args().seeds)]
    for name in ("processes", "commits", "seconds"):
        values = sorted(getattr(cost, name) for cost in costs)
        print(f"{name}: median {statistics.median(values):g}, most {values[-1]:g}")
    print(f"named the culprit: {sum(cost.is_right for cost in costs)} of {len(costs)}")
    return 0 if max(cost.seconds for cost in costs) <= MOST_S else 1


def search(seed: int) -> SearchCost:
    """Search a range with a step at a random commit."""
    rng = random.Random(seed)
    culprit = rng.randint(1, COMMITS)
    searched = CommitSearch(COMMITS)
    measured: set[int] = set()
    while (
        position := searched.choose_next(
            {
                number: PROCESS_S + (0.0 if number in measured else PREPARING_S)
                for number in range(COMMITS + 1)
            }
        )
    ) is not None:
        measured.add(position)
        level = math.log1p(STEP) if position >= culprit else 0.0
        searched.record(position, level + rng.gauss(0.0, NOISE))
    assert searched.conclusion is not None
    is_named = searched.conclusion.outcome is SearchOutcome.NAMED
    return SearchCost(
        len(searched.observations), len(measured), is_named and searched.conclusion.last == culprit
    )


if __name__ == "__main__":
    raise SystemExit(main())
