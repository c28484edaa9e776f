"""docs/verdicts.md keeps its word: its pictures are what the judge says today, its papers those the code
rests on.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from perfci.model import VerdictKind
from tools.draw_verdicts import CASES, PLOTS, Comparison, draw_pictures, judge_trend

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "verdicts.md").read_text()

CITATION = re.compile(
    r"\b([A-Z][\w-]*[a-zö])((?:, [A-Z]\w+)*(?:,? (?:&|and) [A-Z]\w+)?| et al\.?)"
    r"(?:'s)?,? \(?((?:19|20)\d\d)\b"
)
"""``Lan & DeMets (1983)``, ``Smyth 2004``, ``Bulej et al. 2020``."""


def cited(text: str) -> set[tuple[str, str]]:
    return {(name, year) for name, _, year in CITATION.findall(" ".join(text.split()))}


CASES_OF_TODAY = json.loads(CASES.read_text())


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        ("regression", VerdictKind.REGRESSION),
        ("unchanged", VerdictKind.UNCHANGED),
        ("inconclusive", VerdictKind.INCONCLUSIVE),
        ("two-states", VerdictKind.INCONCLUSIVE),
    ],
)
def test_each_documented_case_has_its_documented_verdict(case: str, kind: VerdictKind) -> None:
    result = Comparison.of(case, CASES_OF_TODAY["comparisons"][case])

    assert result.verdict.kind is kind
    assert f"pairs: {kind.value}, " in (PLOTS / f"{case}.svg").read_text()


def test_the_quoted_mix_of_two_states_matches_the_output() -> None:
    result = Comparison.of("two-states", CASES_OF_TODAY["comparisons"]["two-states"])

    quoted = re.search(r"\*(\d+ of \d+ base .*?within modes)\*", " ".join(PAGE.split()))

    assert quoted is not None
    assert quoted[1] in result.verdict.reason


@pytest.mark.parametrize(("history", "state"), [("change-point", "confirmed"), ("environment", "refuted")])
def test_each_documented_history_has_its_single_step(history: str, state: str) -> None:
    (mark,) = judge_trend(CASES_OF_TODAY["histories"][history]).marks

    assert mark.state == state


def test_every_figure_can_be_regenerated() -> None:
    assert {path.stem for path in PLOTS.glob("*.svg")} == set(draw_pictures(CASES_OF_TODAY))


def test_every_figure_is_used() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(plots/([\w-]+)\.svg\)", PAGE)

    assert sorted(shown) == sorted(path.stem for path in PLOTS.glob("*.svg"))


def test_every_cited_paper_is_in_the_table() -> None:
    sources = [
        path for room in ("stats", "verdicts") for path in sorted((ROOT / "perfci" / room).rglob("*.py"))
    ]
    table = PAGE.partition("## Methods and papers")[2]

    missing = sorted(
        {
            (path.name, name, year)
            for path in sources
            for name, year in cited(path.read_text())
            if not re.search(rf"\|[^|\n]*\b{name}\b[^|\n]*{year}", table)
        }
    )

    assert missing == []


def test_every_link_has_a_target() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", PAGE) if "://" not in link]

    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
