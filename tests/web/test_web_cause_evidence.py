"""What speaks for the code or for the runner, in words that fit any number of places."""

import pytest

from perfci.model import ChangePoint
from perfci.report.series_trend import ChangeMark, build_trend
from perfci_web.series.cause_evidence import build_cause_evidence
from tests.support.report_builders import a_history, a_series


@pytest.fixture(scope="module")
def mark() -> ChangeMark:
    history = a_history()
    change = ChangePoint(a_series(), history[25].commit.sha, history[22].commit.sha, 0.0147, 0.0132)
    return build_trend(a_series(), history, [change], []).marks[0]


@pytest.mark.parametrize(
    ("elsewhere", "sentence"),
    [
        ([], "Not clear: there is no other place to compare with"),
        ([None], "Not clear: there is no other place to compare with"),
        ([True], "Probably the code: it moved in both places"),
        ([False], "Maybe the runner: it moved here and not in the other place"),
        ([True, False], "Not clear: it moved in 2 of 3 places"),
        ([True] * 8, "Probably the code: it moved in all 9 places"),
        ([False] * 8, "Maybe the runner: it moved here and in none of 8 other places"),
    ],
)
def test_says_in_how_many_places_a_change_was_seen(
    mark: ChangeMark, elsewhere: list[bool | None], sentence: str
) -> None:
    moved = {f"place {number}": seen for number, seen in enumerate(elsewhere)}

    assert build_cause_evidence(mark, moved, 0, 0, "", "").sentence == sentence


def test_counts_series_of_other_benchmarks(mark: ChangeMark) -> None:
    facts = build_cause_evidence(mark, {}, 0, 1, "", "").facts

    assert "On this machine 0 of 1 series of other benchmarks moved at the same commits" in facts
