"""What became of incidents since a moment, as a sentence and as text for a chat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from perfci.model import IncidentState
from perfci.number_format import format_count, format_day
from perfci.report.escaping import make_printable
from perfci.report.incidents.notification_text import STATE_LABELS

MAX_LINES = 10
"""Incidents that the text lists."""


@dataclass(frozen=True, slots=True)
class NewsItem:
    """An incident that appeared since then (``is_new``), or that somebody or something changed."""

    number: int
    headline: str
    state: IncidentState
    assignee: str
    is_new: bool

    @property
    def word(self) -> str:
        """What became of it."""
        return "new" if self.is_new and self.state is IncidentState.NEW else STATE_LABELS[self.state]

    @property
    def is_fixed(self) -> bool:
        return self.state in (IncidentState.FIXED, IncidentState.REVERTED)


@dataclass(frozen=True, slots=True)
class News:
    """The incidents that are new or changed since a moment, newest first; ``more`` are not listed."""

    since: datetime
    items: tuple[NewsItem, ...]
    more: int = 0

    @property
    def sentence(self) -> str:
        """How many are new, fixed and otherwise changed."""
        new = sum(item.is_new for item in self.items)
        fixed = sum(item.is_fixed and not item.is_new for item in self.items)
        others = len(self.items) - new - fixed
        counts = (
            format_count(new, "new incident") if new else "",
            f"{fixed:,} fixed" if fixed else "",
            f"{others:,} changed" if others else "",
            f"{self.more:,} more" if self.more else "",
        )
        return ", ".join(filter(None, counts)) or "nothing new"


def write_news(project: str, news: News, address: Callable[[int], str]) -> str:
    """Write news as lines of plain text, each with the address of its incident."""
    lines = [f"{project} since {format_day(news.since)}, {news.since:%H:%M} UTC: {news.sentence}"]
    for item in news.items[:MAX_LINES]:
        owner = f", {make_printable(item.assignee, 60)}" if item.assignee else ""
        headline = make_printable(item.headline, 200)
        lines.append(f"#{item.number} {item.word}{owner}: {headline} {address(item.number)}")
    left_out = len(news.items) - MAX_LINES + news.more
    return "\n".join([*lines, *([f"and {left_out:,} more"] if left_out > 0 else [])])
