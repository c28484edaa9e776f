"""The view model of the impact of commits: which changed which series by how much, even if fixed since."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from perfci.model import Commit, Series
from perfci.report.incidents import notification_text
from perfci.store.incidents.commit_impacts_page import load_commit_impacts_page
from perfci.store.incidents.incident_records import ImpactRecord
from perfci.store.projects import Project
from perfci.store.queries.series_commits_machines import load_commits_by_sha

PAGE_SIZE = 100
"""Rows of one page."""

MAX_CURSOR = 2**62  # row ids have 64 bits, with a sign

DIRECTION_FILTERS: Mapping[str, str] = {"": "Everything", "worse": "Worse", "better": "Better"}


@dataclass(frozen=True, slots=True)
class ImpactPageQuery:
    """Which rows: ``effect`` is worse, better or empty, ``commit`` a sha or empty, ``before`` a cursor."""

    effect: str = ""
    commit: str = ""
    before: int | None = None


@dataclass(frozen=True, slots=True)
class ImpactTableRow:
    """One changed series; ``worse`` is the direction of the change."""

    impact: ImpactRecord
    worse: bool

    @property
    def incident_state_label(self) -> str:
        return notification_text.STATE_LABELS[self.impact.state] if self.impact.state else ""


@dataclass(frozen=True, slots=True)
class CommitImpact:
    """The rows of one commit."""

    sha: str
    commit: Commit | None
    rows: tuple[ImpactTableRow, ...]


@dataclass(frozen=True, slots=True)
class ImpactView:
    """One page of impacts, grouped by commit."""

    project: str
    query: ImpactPageQuery
    commits: tuple[CommitImpact, ...]
    next_cursor: int | None

    @property
    def series(self) -> list[Series]:
        return [row.impact.change.series for commit in self.commits for row in commit.rows]


def parse_impact_query(arguments: Mapping[str, str]) -> ImpactPageQuery:
    """Read the query of an address; a value that makes no sense is left out."""
    effect, commit, before = (arguments.get(name, "") for name in ("effect", "commit", "before"))
    cursor = int(before) if before.isdecimal() and len(before) < 19 else 0
    return ImpactPageQuery(
        effect=effect if effect in DIRECTION_FILTERS else "",
        commit=commit if re.fullmatch("[0-9a-f]{7,64}", commit) else "",
        before=cursor if 0 < cursor < MAX_CURSOR else None,
    )


def load_impact_page(
    tx: Session, project: Project, query: ImpactPageQuery
) -> tuple[Sequence[ImpactRecord], int | None]:
    """Load one page of impacts, with the cursor of the next."""
    worse = query.effect == "worse" if query.effect else None
    return load_commit_impacts_page(
        tx, project.id, commit=query.commit or None, worse=worse, before=query.before, limit=PAGE_SIZE
    )


def build_impact_view(tx: Session, project: Project, query: ImpactPageQuery) -> ImpactView:
    """Build one page, latest first, with the rows of one commit together."""
    impacts, next_cursor = load_impact_page(tx, project, query)
    shas = {impact.change.commit for impact in impacts} | {query.commit} - {""}
    commits = load_commits_by_sha(tx, project.slug, shas)
    commit_impacts = []
    for sha, group in itertools.groupby(impacts, key=lambda impact: impact.change.commit):
        rows = []
        for impact in group:
            rows.append(ImpactTableRow(impact, worse=impact.change.log_cost_change > 0))
        commit_impacts.append(CommitImpact(sha, commits.get(sha), tuple(rows)))
    return ImpactView(project.slug, query, tuple(commit_impacts), next_cursor)
