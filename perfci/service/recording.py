"""Write down what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from perfci.model import Verdict
from perfci.service.measuring import Session
from perfci.store import Store
from perfci.store.reads import history, series_of_project, summarised_levels
from perfci.store.writes import add_verdicts, replace_change_points
from perfci.verdicts.compare import Rule
from perfci.verdicts.gating import gated_by_commit
from perfci.verdicts.history import change_points, moves_of_histories


def record(session: Session, verdicts: Sequence[Verdict]) -> None:
    """Store verdicts; what was convicted or acquitted on fresh pairs supersedes its screening."""
    with session.store.begin() as tx:
        add_verdicts(tx, session.project, session.uid, list(verdicts), datetime.now(UTC))


def record_change_points(session: Session, rule: Rule) -> None:
    """Look again at the whole history of every judged series this session added to; a witness has no change points."""
    touched = gated_by_commit(session.measured)
    with session.store.begin() as tx:
        for row in series_of_project(tx, session.project):
            if row.series in touched:
                points = change_points(row.series, history(tx, row.id), rule=rule)
                replace_change_points(tx, session.project, row.series, points)


def with_evidence(session: Session, verdicts: Sequence[Verdict]) -> list[Verdict]:
    return [
        replace(v, evidence=tuple(i for sha in (v.base, v.head) for i in session.evidence.get((sha, v.series), ())))
        for v in verdicts
    ]


def record_imported_changes(store: Store, project: str, rule: Rule) -> int:
    """Look for change points in every history that came from elsewhere; return how many there are."""
    with store.begin() as tx:
        found = moves_of_histories(summarised_levels(tx, project), rule=rule)
        for series, points in found.items():
            replace_change_points(tx, project, series, points)
    return sum(map(len, found.values()))
