"""How far the search for a commit is, as reports tell it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from perfci.model import Commit, Metric
from perfci.verdicts.search.commit_search import SearchConclusion, SearchOutcome

LEFT_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class BisectStatus:
    """What a search among ``commits`` measured in all of its calls, and how likely each commit is.

    ``commits`` are in order, the first one is the last good one; ``failures`` say by sha why a commit cannot
    be measured. ``conclusion`` is None while the search is not over.
    """

    benchmark: str
    metric: Metric
    commits: tuple[Commit, ...]
    conclusion: SearchConclusion | None
    probabilities: tuple[float, ...]
    processes: int
    measured: tuple[Commit, ...]
    failures: Mapping[str, str]
    machine_s: float
    session: str

    @property
    def named(self) -> Commit | None:
        """The one commit that moved the metric."""
        conclusion = self.conclusion
        return (
            self.commits[conclusion.last]
            if conclusion and conclusion.outcome is SearchOutcome.NAMED
            else None
        )

    @property
    def commits_left(self) -> int:
        """The fewest commits that have 95 % of the probability together."""
        cumulative = itertools.accumulate(sorted(self.probabilities, reverse=True))
        return sum(before < LEFT_SHARE for before in [0.0, *cumulative][: len(self.commits) - 1])

    @property
    def ranked_commits(self) -> list[tuple[Commit, float]]:
        """The likeliest commits first, each with its probability."""
        rows = zip(self.commits, self.probabilities, strict=True)
        return sorted(rows, key=lambda row: -row[1])
