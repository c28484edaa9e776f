"""The ledger: which commit moved which series by how much, also where a later gain hides it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from perfci.model import ChangePoint, Commit, Series
from perfci.report.incidents import notification_text
from perfci.store.incidents.incident_members import ledger
from perfci.store.incidents.records import LedgerLine
from perfci.store.projects import Project
from perfci.store.queries.measurements import commits_of
from perfci.verdicts.incidents.step_causes import cost_of

LINES = 100
"""Lines of one page; the next one begins where it ends."""

HIGHEST_CURSOR = 2**62

FILTERS: Mapping[str, str] = {"": "Everything", "worse": "Worse", "better": "Better"}


@dataclass(frozen=True, slots=True)
class Asked:
    """Which lines: ``moved`` is worse, better or empty, ``commit`` a full sha or empty."""

    moved: str = ""
    commit: str = ""
    before: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    line: LedgerLine
    worse: bool

    @property
    def state(self) -> str:
        return notification_text.STATES[self.line.state] if self.line.state else ""


@dataclass(frozen=True, slots=True)
class Moved:
    """What one commit moved, as far as the page shows it."""

    sha: str
    commit: Commit | None
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class LedgerPage:
    project: str
    asked: Asked
    commits: tuple[Moved, ...]
    next: int | None

    @property
    def series(self) -> list[Series]:
        return [row.line.series for moved in self.commits for row in moved.rows]


def asked_of(query: Mapping[str, str]) -> Asked:
    """What an address asks; what it says of no commit that could be, or of another page, is left out."""
    moved, commit, before = (query.get(name, "") for name in ("moved", "commit", "before"))
    place = int(before) if before.isdecimal() and len(before) < 19 else 0
    return Asked(
        moved=moved if moved in FILTERS else "",
        commit=commit if re.fullmatch("[0-9a-f]{7,64}", commit) else "",
        before=place if 0 < place < HIGHEST_CURSOR else None,
    )


def lines(tx: Session, project: Project, asked: Asked) -> tuple[Sequence[LedgerLine], int | None]:
    worse = asked.moved == "worse" if asked.moved else None
    return ledger(tx, project.id, commit=asked.commit or None, worse=worse, before=asked.before, limit=LINES)


def ledger_page(tx: Session, project: Project, asked: Asked) -> LedgerPage:
    """A page of it, the last recorded first, lines of one commit together."""
    found, following = lines(tx, project, asked)
    known = commits_of(tx, project.slug, {line.commit for line in found} | {asked.commit} - {""})
    moved = tuple(
        Moved(sha, known.get(sha), tuple(map(_row, group)))
        for sha, group in itertools.groupby(found, key=lambda line: line.commit)
    )
    return LedgerPage(project.slug, asked, moved, following)


def _row(line: LedgerLine) -> Row:
    change = ChangePoint(line.series, line.commit, "", line.rel, line.before, line.after)
    return Row(line, cost_of(change) > 0)
