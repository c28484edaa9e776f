"""The activity log of an incident."""

from __future__ import annotations

import pytest

from perfci.number_format import format_rough_duration
from perfci.report.incidents.activity_log_text import activity_heading, activity_text

CASES = [
    (("state", "new", "culprit_found", ""), "State", "new → culprit found"),
    (("state", "new", "invalid", "noise"), "State", "new → invalid: noise"),
    (("state", "", "new", "2 series got worse"), "State", "new: 2 series got worse"),
    (("note", "", "", "the tokenizer cache"), "Note", "the tokenizer cache"),
    (("assign", "ada", "", "assignee"), "Assignee", "nobody"),
    (("assign", "", "2026-11-21 23:59:59+00:00", "due_at"), "Due", "21 Nov 2026"),
    (("link", "", "00000014" + "c" * 32, "culprit_sha"), "Culprit", "00000014cc"),
    (("link", "https://example.org/12", "", "issue_url"), "Issue", "none"),
    (("verified", "fixed", "fixed", "the level is back"), "Verified", "the level is back"),
    (("merge", "5", "2", "took in 5"), "Merged", "took in 5"),
    (
        ("move_boundary", "a..b", "b..c", "the points agree"),
        "Boundary moved",
        "a..b → b..c: the points agree",
    ),
    (("a_new_word", "x", "y", "z"), "a_new_word", "x → y: z"),
]


@pytest.mark.parametrize(("event", "heading", "sentence"), CASES)
def test_formats_each_event(event: tuple[str, str, str, str], heading: str, sentence: str) -> None:
    assert (activity_heading(event[0], event[3]), activity_text(*event)) == (heading, sentence)


@pytest.mark.parametrize(
    ("seconds", "text"), [(12, "less than a minute"), (60, "1 minute"), (507_600, "5 days")]
)
def test_formats_a_duration(seconds: float, text: str) -> None:
    assert format_rough_duration(seconds) == text
