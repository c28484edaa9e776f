"""Write down what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy.orm import Session as Transaction

from perfci.model import ChangePoint, Series, Verdict
from perfci.service.measuring import Session
from perfci.store import Store
from perfci.store.decisions import add_decisions
from perfci.store.reads import history, series_of_project, summarised_levels
from perfci.store.records import SeriesRecord
from perfci.store.writes import add_verdicts, replace_change_points
from perfci.verdicts.gating import gated_by_commit
from perfci.verdicts.history import change_points, moves_of_histories
from perfci.verdicts.policy import Policy


def record(session: Session, verdicts: Sequence[Verdict], *, rate: float | None = None) -> None:
    """Store verdicts and how they were reached; what was settled on fresh pairs supersedes its screening.

    ``rate`` is the false discovery rate they were held to together.
    """
    with session.store.begin() as tx:
        ids = add_verdicts(tx, session.project, session.uid, list(verdicts), datetime.now(UTC))
        reached = {
            row_id: session.decisions.get((v.series, v.base, v.head)) for row_id, v in zip(ids, verdicts, strict=True)
        }
        add_decisions(tx, {row_id: replace(one, rate=rate) for row_id, one in reached.items() if one is not None})


def record_change_points(session: Session, policy: Policy) -> None:
    """Look again at the whole history of every judged series this session added to; a witness has no change points."""
    touched = gated_by_commit(session.measured)
    with session.store.begin() as tx:
        for row in series_of_project(tx, session.project):
            if row.series in touched:
                points = judged_history(tx, row, policy)
                replace_change_points(tx, session.project, row.series, points)


def judged_history(tx: Transaction, row: SeriesRecord, policy: Policy) -> list[ChangePoint]:
    """The change points of a series as the policy sees them; one that is not judged has none."""
    if not policy.judges(row.series):
        return []
    return change_points(row.series, history(tx, row.id), rule=policy.rule_for(row.series))


def with_evidence(session: Session, verdicts: Sequence[Verdict]) -> list[Verdict]:
    return [
        replace(v, evidence=tuple(i for sha in (v.base, v.head) for i in session.evidence.get((sha, v.series), ())))
        for v in verdicts
    ]


def record_imported_changes(store: Store, project: str, policy: Policy) -> int:
    """Look for change points in every history that came from elsewhere; return how many there are."""
    with store.begin() as tx:
        found = imported_changes(tx, project, policy)
        for series, points in found.items():
            replace_change_points(tx, project, series, points)
    return sum(map(len, found.values()))


def imported_changes(tx: Transaction, project: str, policy: Policy) -> dict[Series, list[ChangePoint]]:
    """The change points of every history that came from elsewhere; a series that is not judged has none."""
    levels = summarised_levels(tx, project)
    judged = {series: measured for series, measured in levels.items() if policy.judges(series)}
    return {series: [] for series in levels} | moves_of_histories(judged, rules=policy.rule_for)
