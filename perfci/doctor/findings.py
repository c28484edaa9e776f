"""The finding of a check: a level, a subject, a sentence, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class CheckLevel(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    WARNING = "warning"  # measuring works, and shows less than it could
    PROBLEM = "problem"  # something is not measured, or what is measured cannot be trusted


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The finding of one check; ``advice`` is empty where there is nothing to do.

    ``figures`` repeats the numbers of the sentence for ``--json``, as ratios and counts.
    """

    level: CheckLevel
    subject: str
    sentence: str
    advice: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


def ok_finding(subject: str, sentence: str) -> DoctorFinding:
    """A finding without a fault."""
    return DoctorFinding(CheckLevel.OK, subject, sentence)


def warning_finding(subject: str, sentence: str, advice: str) -> DoctorFinding:
    """A finding that makes measuring less sensitive."""
    return DoctorFinding(CheckLevel.WARNING, subject, sentence, advice)


def problem_finding(subject: str, sentence: str, advice: str) -> DoctorFinding:
    """A finding that prevents a measurement or makes it unreliable."""
    return DoctorFinding(CheckLevel.PROBLEM, subject, sentence, advice)


def format_first_names(names: list[str], limit: int = 5) -> str:
    """List the first names, and how many more there are."""
    shown = ", ".join(names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown
