"""Reasons why series have no value, each with the series that share it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from perfci.model import Series, Status
from perfci.report.serializers import serialize_series
from perfci_web.view_parts.cells import CellRows, group_by_cell

NO_REASON = "no reason was given"


@dataclass(frozen=True, slots=True)
class MissingReason:
    """A reason, and the series it applies to."""

    text: str
    series: tuple[Series, ...]

    @property
    def cells(self) -> list[CellRows[Series]]:
        return group_by_cell(self.series, lambda series: series)


def group_by_reason(series_by_text: Iterable[tuple[str, Series]]) -> tuple[MissingReason, ...]:
    """Group series by reason, most frequent first."""
    together: dict[str, list[Series]] = {}
    for text, series in series_by_text:
        together.setdefault(text or NO_REASON, []).append(series)
    reasons = [MissingReason(text, tuple(series)) for text, series in together.items()]
    return tuple(sorted(reasons, key=lambda reason: (-len(reason.series), reason.text)))


def format_failure(status: Status, reason: str) -> str:
    """Format a failure: ``oom: CUDA out of memory``."""
    how = "" if status is Status.FAILED and reason else status.value
    return ": ".join(part for part in (how, reason) if part)


def count_series(reasons: Iterable[MissingReason]) -> int:
    return sum(len(reason.series) for reason in reasons)


def serialize_reason(reason: MissingReason) -> dict[str, Any]:
    return {"reason": reason.text, "series": [serialize_series(series) for series in reason.series]}
