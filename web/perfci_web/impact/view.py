"""The ledger: which commit moved which series by how much, also where a later gain hides it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from perfci.model import ChangePoint, Commit, Series
from perfci.report.incidents import notification_text
from perfci.store.incidents.impact import list_impacts
from perfci.store.incidents.records import ImpactRecord
from perfci.store.projects import Project
from perfci.store.queries.measurements import load_commits_by_sha
from perfci.verdicts.incidents.step_causes import compute_log_cost

PAGE_SIZE = 100
"""Lines of one page; the next one begins where it ends."""

MAX_CURSOR = 2**62

DIRECTION_FILTERS: Mapping[str, str] = {"": "Everything", "worse": "Worse", "better": "Better"}


@dataclass(frozen=True, slots=True)
class ImpactPageQuery:
    """Which lines: ``moved`` is worse, better or empty, ``commit`` a full sha or empty."""

    moved: str = ""
    commit: str = ""
    before: int | None = None


@dataclass(frozen=True, slots=True)
class ImpactTableRow:
    impact: ImpactRecord
    worse: bool

    @property
    def state(self) -> str:
        return notification_text.STATE_LABELS[self.impact.state] if self.impact.state else ""


@dataclass(frozen=True, slots=True)
class CommitImpact:
    """What one commit moved, as far as the page shows it."""

    sha: str
    commit: Commit | None
    rows: tuple[ImpactTableRow, ...]


@dataclass(frozen=True, slots=True)
class ImpactView:
    project: str
    query: ImpactPageQuery
    commits: tuple[CommitImpact, ...]
    next_cursor: int | None

    @property
    def series(self) -> list[Series]:
        return [row.impact.series for moved in self.commits for row in moved.rows]


def parse_query(arguments: Mapping[str, str]) -> ImpactPageQuery:
    """What an address asks; what it says of no commit that could be, or of another page, is left out."""
    moved, commit, before = (arguments.get(name, "") for name in ("moved", "commit", "before"))
    place = int(before) if before.isdecimal() and len(before) < 19 else 0
    return ImpactPageQuery(
        moved=moved if moved in DIRECTION_FILTERS else "",
        commit=commit if re.fullmatch("[0-9a-f]{7,64}", commit) else "",
        before=place if 0 < place < MAX_CURSOR else None,
    )


def load_impact(
    tx: Session, project: Project, query: ImpactPageQuery
) -> tuple[Sequence[ImpactRecord], int | None]:
    worse = query.moved == "worse" if query.moved else None
    return list_impacts(
        tx, project.id, commit=query.commit or None, worse=worse, before=query.before, limit=PAGE_SIZE
    )


def build_impact_view(tx: Session, project: Project, query: ImpactPageQuery) -> ImpactView:
    """A page of it, the last recorded first, lines of one commit together."""
    found, following = load_impact(tx, project, query)
    known = load_commits_by_sha(tx, project.slug, {line.commit for line in found} | {query.commit} - {""})
    moved = tuple(
        CommitImpact(sha, known.get(sha), tuple(map(_build_row, group)))
        for sha, group in itertools.groupby(found, key=lambda line: line.commit)
    )
    return ImpactView(project.slug, query, moved, following)


def _build_row(impact: ImpactRecord) -> ImpactTableRow:
    change = ChangePoint(
        impact.series, impact.commit, "", impact.relative_change, impact.before, impact.after
    )
    return ImpactTableRow(impact, compute_log_cost(change) > 0)
