"""Write down what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from perfci.measure.measurement_session import MeasurementSession
from perfci.model import Verdict
from perfci.store.queries.decisions import add_decisions
from perfci.store.writes.verdict_writes import add_verdicts


def record_verdicts(
    session: MeasurementSession, verdicts: Sequence[Verdict], *, false_discovery_rate: float | None = None
) -> None:
    """Store verdicts and how they were reached; what was settled on fresh pairs supersedes its screening.

    ``rate`` is the false discovery rate they were held to together.
    """
    with session.store.begin() as tx:
        ids = add_verdicts(tx, session.project, session.uid, list(verdicts), datetime.now(UTC))
        reached = {
            row_id: session.decisions.get((v.series, v.base, v.head))
            for row_id, v in zip(ids, verdicts, strict=True)
        }
        add_decisions(
            tx,
            {
                row_id: replace(one, rate=false_discovery_rate)
                for row_id, one in reached.items()
                if one is not None
            },
        )


def attach_evidence(session: MeasurementSession, verdicts: Sequence[Verdict]) -> list[Verdict]:
    return [
        replace(
            v, evidence=tuple(i for sha in (v.base, v.head) for i in session.row_ids.get((sha, v.series), ()))
        )
        for v in verdicts
    ]
