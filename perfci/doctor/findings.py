"""What a check comes to: a level, what it is about, a plain sentence, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"  # measuring works, and shows less than it could
    PROBLEM = "problem"  # something is not measured, or what is measured cannot be trusted


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor. ``advice`` says what to do, and is empty where there is nothing to do.

    ``figures`` are for programs that read ``--json``: what the sentence says, as ratios and counts.
    """

    level: Level
    subject: str
    sentence: str
    advice: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


def ok(subject: str, sentence: str) -> Finding:
    return Finding(Level.OK, subject, sentence)


def warning(subject: str, sentence: str, advice: str) -> Finding:
    return Finding(Level.WARNING, subject, sentence, advice)


def problem(subject: str, sentence: str, advice: str) -> Finding:
    return Finding(Level.PROBLEM, subject, sentence, advice)


def counted(number: int, noun: str) -> str:
    """``1 module``, ``3 modules``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(names: list[str], most: int = 5) -> str:
    """Name a few of many."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
