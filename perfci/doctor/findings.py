"""What a check comes to: a level, what it is about, a plain sentence, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class CheckLevel(StrEnum):
    OK = "ok"
    WARNING = "warning"  # measuring works, and shows less than it could
    PROBLEM = "problem"  # something is not measured, or what is measured cannot be trusted


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One line of the doctor. ``advice`` says what to do, and is empty where there is nothing to do.

    ``figures`` are for programs that read ``--json``: what the sentence says, as ratios and counts.
    """

    level: CheckLevel
    subject: str
    sentence: str
    advice: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


def ok(subject: str, sentence: str) -> DoctorFinding:
    return DoctorFinding(CheckLevel.OK, subject, sentence)


def warning(subject: str, sentence: str, advice: str) -> DoctorFinding:
    return DoctorFinding(CheckLevel.WARNING, subject, sentence, advice)


def problem(subject: str, sentence: str, advice: str) -> DoctorFinding:
    return DoctorFinding(CheckLevel.PROBLEM, subject, sentence, advice)


def format_count(number: int, noun: str) -> str:
    """``1 module``, ``3 modules``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_names(names: list[str], limit: int = 5) -> str:
    """Name a few of many."""
    shown = ", ".join(names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown
