"""Why series have no value, one line for each reason however many series share it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from perfci.model import Series, Status
from perfci.report.serializers import series_fields
from perfci_web.view_parts.cells import Cell, by_cell

NOT_TOLD = "no reason was given"


@dataclass(frozen=True, slots=True)
class Reason:
    """What was said instead of a value, and of which series."""

    text: str
    series: tuple[Series, ...]

    @property
    def cells(self) -> list[Cell[Series]]:
        return by_cell(self.series, lambda series: series)


def by_reason(found: Iterable[tuple[str, Series]]) -> tuple[Reason, ...]:
    """The reasons, the most frequent first."""
    together: dict[str, list[Series]] = {}
    for text, series in found:
        together.setdefault(text or NOT_TOLD, []).append(series)
    reasons = [Reason(text, tuple(series)) for text, series in together.items()]
    return tuple(sorted(reasons, key=lambda reason: (-len(reason.series), reason.text)))


def failure(status: Status, reason: str) -> str:
    """How something failed and what it said: ``oom: CUDA out of memory``."""
    how = "" if status is Status.FAILED and reason else status.value
    return ": ".join(part for part in (how, reason) if part)


def how_many(reasons: Iterable[Reason]) -> int:
    return sum(len(reason.series) for reason in reasons)


def reason_fields(reason: Reason) -> dict[str, Any]:
    return {"reason": reason.text, "series": [series_fields(one) for one in reason.series]}
