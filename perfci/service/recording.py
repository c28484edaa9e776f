"""Write down what was decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy.orm import Session as Transaction

from perfci.model import ChangePoint, Series, Verdict
from perfci.service.judged_points import JudgedLines
from perfci.service.measuring import Session
from perfci.store import Store
from perfci.store.decisions import add_decisions
from perfci.store.levels import set_levels
from perfci.store.loading import series_by_project
from perfci.store.reads import change_points, summarised_levels
from perfci.store.writes import add_verdicts, keep_change_points
from perfci.verdicts.gating import gated_by_commit
from perfci.verdicts.history import Memory, changes_of_levels, moves_of_histories
from perfci.verdicts.policy import Policy

MEMORY = Memory()
"""What this process has looked at before; nothing depends on it but the time another look takes."""


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
        series = {row_id: one for row_id, one in series_by_project(tx, session.project).items() if one in touched}
        keep_change_points(tx, session.project, judged_histories(tx, series, policy))


def judged_histories(tx: Transaction, series: Mapping[int, Series], policy: Policy) -> dict[Series, list[ChangePoint]]:
    """The change points of each series by name, as the policy sees them; one that is not judged has none.

    What had to be worked out of samples on the way is kept.
    """
    judged = {row_id: one for row_id, one in series.items() if policy.judges(one)}
    lines = JudgedLines.of(tx, judged)
    set_levels(tx, lines.digests)
    repeating = {one for row_id, one in judged.items() if lines.repeats(row_id)}
    levels = {one: lines.levels(row_id) for row_id, one in judged.items()}
    found = changes_of_levels(levels, repeating.__contains__, rules=policy.rule_for, memory=MEMORY)
    return {one: [] for one in sorted(series.values(), key=lambda one: one.label)} | found


def with_evidence(session: Session, verdicts: Sequence[Verdict]) -> list[Verdict]:
    return [
        replace(v, evidence=tuple(i for sha in (v.base, v.head) for i in session.evidence.get((sha, v.series), ())))
        for v in verdicts
    ]


def record_imported_changes(store: Store, project: str, policy: Policy, *, since: int = 0) -> int:
    """Look for change points in every history that came from elsewhere and has a result newer than ``since``.

    Return how many the project has now.
    """
    with store.begin() as tx:
        found = imported_changes(tx, project, policy, since=since)
        keep_change_points(tx, project, found)
        return len(change_points(tx, project))


def imported_changes(
    tx: Transaction, project: str, policy: Policy, *, since: int = 0
) -> dict[Series, list[ChangePoint]]:
    """The change points of such histories; a series that is not judged has none."""
    levels = summarised_levels(tx, project, since=since)
    judged = {series: measured for series, measured in levels.items() if policy.judges(series)}
    return {series: [] for series in levels} | moves_of_histories(judged, rules=policy.rule_for, memory=MEMORY)
