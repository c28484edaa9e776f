"""The newest explanation of an incident, as its page shows it."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfci.number_format import choose_display_scale
from perfci.report.commits.explanation_text import format_growth
from perfci.store.explanations import StoredExplanation
from perfci.verdicts.explain.explanation import GrowthRow
from perfci_web.incidents.incident_view_model import IncidentView

MAX_ROWS_SHOWN = 5
TABLES = (("phases", "Phase"), ("lines", "Line"), ("operators", "Operator"), ("kernels", "Kernel"))


@dataclass(frozen=True, slots=True)
class GrowthCells:
    """One row of the table of what grew: a name, the times of both sides, and the change."""

    name: str
    base: str
    head: str
    change: str
    is_worse: bool


@dataclass(frozen=True, slots=True)
class ExplanationView:
    """A sentence on one benchmark, and what grew most by phase, line and operator."""

    benchmark: str
    sentence: str
    tables: Sequence[tuple[str, Sequence[GrowthCells]]]


def build_explanation_views(explanations: Sequence[StoredExplanation]) -> list[ExplanationView]:
    """The newest explanation of each benchmark."""
    return [
        ExplanationView(
            row.cell,
            row.sentence,
            [
                (heading, _build_rows(row.document.get(name) or ()))
                for name, heading in TABLES
                if row.document.get(name)
            ],
        )
        for row in explanations
    ]


def build_explain_command(page: IncidentView) -> str:
    """The command that explains an incident of a time; empty for any other."""
    times = [row for row in page.rows if row.change.series.metric.unit == "seconds"]
    if not (page.entry.record.last_good and times):
        return ""
    largest = max(times, key=lambda row: abs(math.log1p(row.change.relative_change)))
    pattern = shlex.quote(f"^{re.escape(largest.change.series.cell)}$")
    return f"perfci explain {page.entry.record.number} --bench {pattern}"


def _build_rows(rows: Sequence[Mapping[str, Any]]) -> list[GrowthCells]:
    growth = [
        GrowthRow(str(row["name"]), float(row["base_s"]), float(row["head_s"]))
        for row in rows[:MAX_ROWS_SHOWN]
    ]
    scale = choose_display_scale([max(row.base_s, row.head_s) for row in growth], "seconds")
    return [
        GrowthCells(
            row.name,
            scale.format_with_unit(row.base_s),
            scale.format_with_unit(row.head_s),
            format_growth(row),
            row.grown_s > 0,
        )
        for row in growth
    ]
