"""What changed in the environment before a commit was measured, as a chart writes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from perfci.model import Environment, EnvironmentChange
from perfci.verdicts.environment_changes import diff_environments

MAX_CHANGE_SHARE = 0.2
"""Values that change more often than this, such as clocks, mark nothing."""

FIRST_NAMES = ("torch", "driver", "cuda", "python", "kernel", "cpu")
"""Names that a reader looks for first."""

MAX_NAMES = 3


def describe_environment_changes(environments: Sequence[tuple[str, Environment]]) -> dict[str, str]:
    """What changed (``torch 2.9 → 2.10``), by sha of the first commit measured in the new environment.

    ``environments`` are those of the commits of a history, oldest first.
    """
    measured = [(sha, environment) for sha, environment in environments if environment.values]
    differences = {
        sha: diff_environments(before, after)
        for (_, before), (sha, after) in pairwise(measured)
        if before != after
    }
    counts = Counter(change.name for changes in differences.values() for change in changes)
    limit = max(1.0, MAX_CHANGE_SHARE * len(measured))
    texts = {
        sha: format_environment_changes(change for change in changes if counts[change.name] <= limit)
        for sha, changes in differences.items()
    }
    return {sha: text for sha, text in texts.items() if text}


def format_environment_changes(changes: Iterable[EnvironmentChange]) -> str:
    """Write changes of an environment, the ones a reader looks for first, and how many more there are."""
    ordered = sorted(changes, key=reading_order)
    shown = [
        f"{change.name} {change.before or 'unknown'} → {change.after or 'unknown'}"
        for change in ordered[:MAX_NAMES]
    ]
    more = len(ordered) - len(shown)
    return ", ".join([*shown, *([f"{more} more"] if more else [])])


def reading_order(change: EnvironmentChange) -> tuple[int, str]:
    """The key that sorts changes: what a reader looks for first, then by name."""
    ranks = [rank for rank, name in enumerate(FIRST_NAMES) if name in change.name.lower()]
    return (ranks[0] if ranks else len(FIRST_NAMES)), change.name
