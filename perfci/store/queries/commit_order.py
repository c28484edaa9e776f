"""The order of commits along a branch, for every list, chart and verdict."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from perfci.model import Commit

LONG_AGO = datetime.min.replace(tzinfo=UTC)


def sort_commits(commits: Iterable[Commit]) -> list[Commit]:
    """Sort commits, oldest first, by position on the first-parent line.

    A commit without a position (an import without its git repository) is placed by its date.
    """
    commits = list(commits)
    placed = sorted(
        (commit for commit in commits if commit.position is not None),
        key=lambda commit: (commit.position or 0, commit.sha),
    )
    keys: dict[Commit, tuple[datetime, int, str]] = {}
    latest = LONG_AGO
    for place, commit in enumerate(placed):
        # Rebased commits may be dated before their parents.
        latest = max(latest, commit.committed_at or LONG_AGO)
        keys[commit] = (latest, place, commit.sha)
    for commit in commits:
        if commit.position is None:
            keys[commit] = (commit.committed_at or LONG_AGO, len(placed), commit.sha)
    return sorted(commits, key=lambda commit: (*keys[commit], commit.dirty))
