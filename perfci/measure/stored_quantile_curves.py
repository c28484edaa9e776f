"""Quantile shift curves of verdicts, estimated from the stored samples that each verdict rests on."""

from __future__ import annotations

from collections.abc import Sequence

from perfci.model import Role, Verdict
from perfci.store import Store
from perfci.store.queries.measured_samples import load_evidence_processes
from perfci.verdicts.compare.quantile_shift_curve import QuantileShiftCurve, estimate_quantile_shifts


def estimate_stored_quantile_curves(store: Store, verdicts: Sequence[Verdict]) -> list[QuantileShiftCurve]:
    """Estimate the curve of every verdict on the processes it rests on, where they have enough samples."""
    curves = []
    with store.read() as tx:
        for verdict in verdicts:
            rows = load_evidence_processes(tx, verdict.evidence, verdict.series)
            base = [row.process for row in rows if row.process.role is Role.BASE]
            head = [row.process for row in rows if row.process.role is Role.HEAD]
            curve = estimate_quantile_shifts(verdict.series, base, head)
            curves += [curve] if curve else []
    return curves
