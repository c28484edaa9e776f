"""Store the verdicts of a session and how each was reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from perfci.history.judge_samples import DecisionKey, build_decision_key
from perfci.measure.measurement_session import MeasurementSession
from perfci.model import Verdict
from perfci.store.queries.verdict_derivations import DecisionRecord, add_decisions
from perfci.store.writes.verdict_writes import add_verdicts


def record_verdicts(
    session: MeasurementSession,
    verdicts: Sequence[Verdict],
    decisions: Mapping[DecisionKey, DecisionRecord],
    *,
    false_discovery_rate: float | None = None,
) -> None:
    """Store verdicts with their decision records; a verdict on fresh pairs supersedes its screening.

    A verdict without a single complete pair has no decision. ``false_discovery_rate`` is the rate to which
    the verdicts were controlled together.
    """
    with session.store.begin() as tx:
        row_ids = add_verdicts(tx, session.project, session.uid, list(verdicts), datetime.now(UTC))
        records = {}
        for row_id, verdict in zip(row_ids, verdicts, strict=True):
            decision = decisions.get(build_decision_key(verdict))
            if decision is not None:
                records[row_id] = replace(decision, rate=false_discovery_rate)
        add_decisions(tx, records)
