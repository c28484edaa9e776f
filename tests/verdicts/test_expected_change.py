"""Expected changes that a pull request declares, and which verdicts they allow."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfci.model import Interval, Verdict, VerdictKind
from perfci.report.pulls.pull_comment import expected_change_outcome
from perfci.service.pulls.parse_pull_description import parse_expected_changes
from perfci.verdicts.expected_change import ExpectedChange
from tests.support.builders import a_series, a_verdict

SAID = """\
Keep two layers.

Perfci-Expect: peak_bytes +3% the cache holds two layers
perfci-expect: training.* −2.5 % fewer tokens, more of each
"""


def moved_verdict(ratio: float, noise_floor: float | None = 0.01, metric: str = "peak_bytes") -> Verdict:
    return a_verdict(a_series("memory.Cache.track", metric=metric), ratio=ratio, noise_floor=noise_floor)


def test_reads_expected_changes_from_trailer_lines() -> None:
    assert parse_expected_changes(SAID) == [
        ExpectedChange("peak_bytes", 0.03, "the cache holds two layers"),
        ExpectedChange("training.*", -0.025, "fewer tokens, more of each"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "Perfci-Expect: peak_bytes +3%",
        "Perfci-Expect: peak_bytes +3 bytes more",
        "Perfci-Expect: +3% the cache",
        "Perfci-Expect: peak_bytes 0% nothing changes",
        "Perfci-Expect: peak_bytes +nan% the cache",
        "Perfci-Expect: peak\x00bytes +3% the cache",
        "I said Perfci-Expect: peak_bytes +3% the cache",
    ],
    ids=["no reason", "no percent", "no name", "no change", "no number", "invisible", "in a sentence"],
)
def test_lines_in_another_form_declare_nothing(line: str) -> None:
    assert parse_expected_changes(line) == []


def test_replaces_unprintable_characters_in_a_reason() -> None:
    (change,) = parse_expected_changes("Perfci-Expect: peak_bytes +3% the\x1b[31m cache")

    assert change.reason == "the\N{REPLACEMENT CHARACTER}[31m cache"


def test_reads_at_most_twenty_expected_changes() -> None:
    assert len(parse_expected_changes("Perfci-Expect: peak_bytes +3% the cache\n" * 100)) == 20


@pytest.mark.parametrize("match", ["peak_bytes", "memory.Cache.track", "memory.*", "*.track.peak_bytes"])
def test_matches_a_metric_a_benchmark_or_both(match: str) -> None:
    assert ExpectedChange(match, 0.03, "meant").matches_series(moved_verdict(1.03).series)


@pytest.mark.parametrize("match", ["peak", "cache", "PEAK_BYTES", "time_*"])
def test_matches_no_part_of_a_name(match: str) -> None:
    assert not ExpectedChange(match, 0.03, "meant").matches_series(moved_verdict(1.03).series)


@pytest.mark.parametrize(
    ("ratio", "noise_floor", "covered"),
    [
        (1.029, 0.0, True),
        (1.0304, None, True),
        (1.031, 0.0, False),
        (1.039, 0.01, True),
        (1.041, 0.01, False),
        (0.97, 0.01, False),
    ],
)
def test_allows_the_declared_change_and_the_noise_around_it(
    ratio: float, noise_floor: float | None, covered: bool
) -> None:
    assert (
        ExpectedChange("peak_bytes", 0.03, "meant").allows_verdict(moved_verdict(ratio, noise_floor))
        is covered
    )


@pytest.mark.parametrize(("lo", "hi"), [(1.2, -1.2), (-1.0, 1.2), (0.0, 1.2), (1.2, 1.0)])
def test_an_interval_that_is_none_allows_for_no_noise(lo: float, hi: float) -> None:
    verdict = replace(moved_verdict(1.04, None), interval=Interval(lo, hi))

    assert verdict.noise == 0.0
    assert not ExpectedChange("*", 0.03, "meant").allows_verdict(verdict)


def test_allows_no_verdict_without_a_ratio() -> None:
    failed = a_verdict(a_series("memory.Cache.track", metric="peak_bytes"), VerdictKind.FAILED, ratio=None)

    assert not ExpectedChange("*", 0.03, "meant").allows_verdict(failed)


def test_one_regression_beyond_it_is_more_than_expected() -> None:
    expected_change = ExpectedChange("peak_bytes", 0.03, "meant")

    assert (
        expected_change_outcome(expected_change, [moved_verdict(1.03), moved_verdict(1.02, metric="time")])
        == "as expected"
    )
    assert (
        expected_change_outcome(expected_change, [moved_verdict(1.03), moved_verdict(1.2)])
        == "larger than expected"
    )
    assert expected_change_outcome(expected_change, [moved_verdict(1.2, metric="time")]) == "not observed"


@given(st.text(max_size=2000))
def test_any_text_can_be_parsed(text: str) -> None:
    for change in parse_expected_changes(text):
        assert change.reason.strip()
        assert (change.match + change.reason).isprintable()
        assert change.change
