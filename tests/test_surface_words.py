"""What users read has the words of the glossary, and percentages are written in one way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from support.surface_texts import (
    SurfaceText,
    list_code_texts,
    list_documentation_texts,
    list_percent_formats,
    list_template_texts,
)

ROOT = Path(__file__).parent.parent

REPLACED_WORDS = {
    r"convict\w*": "confirm",
    r"suspects?|suspicions?": "candidate commit; suspected",
    r"witness\w*": "context metric, informational metric",
    "ledger": "changes",
    "stands? at": "is",
    "middle half": "middle 50 % (IQR)",
    r"calibration": "noise",
    r"measured against each other": "no A/B comparison stored",
    "in the history alone|fresh pairs would confirm|confirmed on fresh pairs": "A/B rerun",
    "measured, not compared": "no A/B run",
    "decided and open": "needs attention",
    "what would settle it": "confirm it",
    "to measure again": "reruns due",
    "settled or noted": "closed",
    "held back": "below the weekly limit; not counted",
    "the chosen are": "set selected to",
    "take in incidents": "merge",
    "move the edge": "shift start",
    "not later than": "between X and Y",
    r"\d sigmas from the": "outside noise (n sigma)",
    "what became of": "outcome of",
    "told": "reported, notified",
}
"""Words that users do not read any more, with what stands in their place."""

BAR = r"\bbars?\b"
"""The threshold of a change; a bar is drawn, and is the name of a setting."""

DRAWN_BARS = (
    "report/charts/",
    "templates/matrix/",
    "templates/waterfalls/",
    "docs/dashboard.md",
    "web/perfci_web/settings/threshold_dry_run.py",
    "web/perfci_web/noise/routes.py",
    "perfci/report/serializers.py",
    "perfci/formats/json_filters/",
    "perfci/cli/rejudge_or_verify_results.py",
)
"""Places that draw bars, or write the key ``bar`` of a document."""

ALLOWED = (
    r"^docs/design/glossary\.md:.*`found`, `told`|[:/]calibration\b|told apart|told from"
    r"|docs/formats\.md.*calibrate"
)

TextLister = Callable[[], Iterable[SurfaceText]]


@pytest.mark.parametrize("texts", [list_code_texts, list_template_texts, list_documentation_texts])
def test_what_users_read_has_the_words_of_the_glossary(texts: TextLister) -> None:
    pattern = re.compile("|".join(rf"\b(?:{words})\b" for words in REPLACED_WORDS), re.IGNORECASE)

    wrong = [
        f"{text.path}:{text.line} {text.text.strip()[:200]}"
        for text in texts()
        if pattern.search(text.text) and not re.search(ALLOWED, f"{text.path}:{text.text}")
    ]

    assert wrong == []


@pytest.mark.parametrize("texts", [list_code_texts, list_template_texts, list_documentation_texts])
def test_a_threshold_is_not_called_a_bar(texts: TextLister) -> None:
    wrong = [
        f"{text.path}:{text.line} {text.text.strip()[:200]}"
        for text in texts()
        if re.search(BAR, re.sub(r"\[judge\] bar\b", "", text.text), re.IGNORECASE)
        and not any(place in text.path for place in DRAWN_BARS)
    ]

    assert wrong == []


def test_only_the_room_for_numbers_formats_percentages() -> None:
    # the ticks of an axis are whole
    allowed = {"perfci/report/charts/sample_charts.py"}

    assert [place for place in list_percent_formats() if place.path not in allowed] == []


INPUT_SYNTAX = re.compile(
    r"^\.\d%$|within \d+(\.\d+)?%|such as 1%|Perfci-Expect|[+-]\d+(\.\d+)?%|width:|%[A-Z0-9]{2}|0x%"
)
"""What people type, styles and encoded addresses."""


@pytest.mark.parametrize("texts", [list_code_texts, list_template_texts])
def test_a_percentage_has_a_space_in_every_text(texts: TextLister) -> None:
    wrong = [
        f"{text.path}:{text.line} {text.text.strip()[:200]}"
        for text in texts()
        if re.search(r"\d%(?!\w)", text.text) and not INPUT_SYNTAX.search(text.text)
    ]

    assert wrong == []


def test_a_percentage_has_a_space_in_every_expected_comment_and_report() -> None:
    files = [
        *ROOT.glob("tests/expected/*.md"),
        *ROOT.glob("tests/*/expected/*.txt"),
        *ROOT.glob("tests/github/*.md"),
    ]

    wrong = [
        f"{path.name}: {match}"
        for path in files
        for match in re.findall(r"\S+[\d]%", path.read_text(encoding="utf-8"))
        if match not in {"1%", "`1%", "5%"}
    ]

    assert len(files) > 20
    assert wrong == []
