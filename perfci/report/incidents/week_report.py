"""The report of one week: what got worse, better and fixed, who has it, and what was open at its end."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from perfci.number_format import format_count, format_day
from perfci.report.escaping import code_span, make_printable, markdown_link

WEEK_LENGTH = timedelta(days=7)


@dataclass(frozen=True, slots=True, order=True)
class Week:
    """An ISO week; as text ``2026-W47``. It starts on Monday at 0:00 UTC."""

    year: int
    number: int

    def __str__(self) -> str:
        return f"{self.year:04}-W{self.number:02}"

    @property
    def start(self) -> datetime:
        return datetime.fromisocalendar(self.year, self.number, 1).replace(tzinfo=UTC)

    @property
    def end(self) -> datetime:
        return self.start + WEEK_LENGTH

    @property
    def previous(self) -> Week:
        return week_of(self.start - WEEK_LENGTH)

    @property
    def next(self) -> Week:
        return week_of(self.end)

    @property
    def days_text(self) -> str:
        return f"{format_day(self.start)} to {format_day(self.end - timedelta(days=1))}"


def week_of(moment: datetime) -> Week:
    """Return the week that a moment lies in."""
    year, number, _ = moment.astimezone(UTC).isocalendar()
    return Week(year, number)


def parse_week(text: str) -> Week | None:
    """Read ``2026-W47``; None where there is no such week between the years 1970 and 9998."""
    match = re.fullmatch("([0-9]{4})-W([0-9]{2})", text)
    if not match:
        return None
    week = Week(int(match[1]), int(match[2]))
    try:
        return week if 1970 <= week.year <= 9998 and week.start else None
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class WeekLine:
    """One line of a section: what happened, what else to know of it, and the address of its page."""

    text: str
    detail: str
    path: str


@dataclass(frozen=True, slots=True)
class WeekSection:
    """One kind of what happened; ``count`` is the number of all, of which ``lines`` may be the first."""

    title: str
    lines: tuple[WeekLine, ...]
    count: int

    @property
    def hidden_count(self) -> int:
        return self.count - len(self.lines)


@dataclass(frozen=True, slots=True)
class WeekReport:
    """A whole week; ``is_over`` says that nothing can happen in it any more."""

    project: str
    week: Week
    is_over: bool
    headline: str
    sections: tuple[WeekSection, ...]


def week_headline(
    worse: int, better: int, fixed: int, open_at_end: int, *, is_over: bool, confirmed_only: bool = False
) -> str:
    """Sum a week up: ``2 changes for the worse, 1 for the better, 1 incident fixed; 3 open at its end``.

    With ``confirmed_only`` all counts are of what an A/B rerun confirmed, and the words say so.
    """
    kind = "confirmed " if confirmed_only else ""
    parts = [format_count(worse, f"{kind}change") + " for the worse"] if worse else []
    counted = f"{better:,}" if worse else format_count(better, f"{kind}change")
    parts += [f"{counted} for the better"] if better else []
    parts += [f"{format_count(fixed, f'{kind}incident')} fixed"] if fixed else []
    when = "at its end" if is_over else "now"
    nothing = "No change is confirmed" if confirmed_only else "Nothing changed"
    return f"{', '.join(parts) or nothing}; {open_at_end or 'none'} open {when}"


def format_week_text(report: WeekReport, address_of: Callable[[str], str]) -> str:
    """Format a week as plain text, as a mail has it."""
    lines = [f"{make_printable(report.project)}, week {report.week}, {report.week.days_text}"]
    lines += ["", f"{report.headline}."]
    for section in report.sections:
        lines += ["", f"{section.title} ({section.count:,})"]
        for line in section.lines:
            lines += [f"- {line.text}", f"  {line.detail}", f"  {address_of(line.path)}"]
        lines += [f"- {section.hidden_count:,} more"] if section.hidden_count else []
    return "\n".join([*lines, ""])


def format_week_markdown(report: WeekReport, address_of: Callable[[str], str]) -> str:
    """Format a week as Markdown; what others named is in code spans."""
    lines = [f"## Week {report.week}, {report.week.days_text}", "", f"**{report.headline}.**"]
    for section in report.sections:
        lines += ["", f"### {section.title} ({section.count:,})", ""]
        lines += [_format_markdown_line(line, address_of) for line in section.lines]
        lines += [f"- {section.hidden_count:,} more"] if section.hidden_count else []
    return "\n".join([*lines, ""])


def _format_markdown_line(line: WeekLine, address_of: Callable[[str], str]) -> str:
    link = markdown_link("open", address_of(line.path))
    return f"- {code_span(line.text, limit=300)} {code_span(line.detail)} {link}"
