"""Headlines of lists of changes, and how each is told in one line."""

from __future__ import annotations

from perfci.model import ChangePoint, Commit
from perfci.number_format import format_count
from perfci.report.escaping import make_printable
from perfci.report.verdict_text import change_levels_phrase, change_size_phrase, short_series_name

CONFIRMED_LABEL, UNCONFIRMED_LABEL = "confirmed", "not confirmed"


def changes_headline(total: int, worse: int, window: str, *, confirmed_only: bool = False) -> str:
    """Count changes: ``4 changes in the last 7 days: 3 worse, 1 better``."""
    adjective = "confirmed " if confirmed_only else ""
    if not total:
        return f"No {adjective}change {window}"
    counts = [f"{worse:,} worse"] if worse else []
    counts += [f"{total - worse:,} better"] if total > worse else []
    return f"{format_count(total, f'{adjective}change')} {window}: {', '.join(counts)}"


def confirmation_label(confirmed: bool) -> str:
    """Return whether an A/B rerun confirmed a change, in words."""
    return CONFIRMED_LABEL if confirmed else UNCONFIRMED_LABEL


def change_title(change: ChangePoint, commit: Commit | None) -> str:
    """Tell a change in one line: ``train got 20.0 % slower at 0000000 Fuse the optimizer step``."""
    subject = make_printable(commit.subject, 90) if commit else ""
    phrase = change_size_phrase(change, change.series.metric)
    return f"{short_series_name(change.series)} {phrase} at {change.commit[:7]} {subject}".strip()


def change_description(change: ChangePoint, commit: Commit | None, confirmed: bool) -> str:
    """What a feed says below the title of a change: levels, author and whether it is confirmed."""
    author = make_printable(commit.author, 60) if commit else ""
    parts = [change_levels_phrase(change), author, confirmation_label(confirmed)]
    return " · ".join(part for part in parts if part)
