"""Badges and charts for pages elsewhere: what they say, and that it fits and can be read."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from perfci.model import ChangePoint, Series, Status
from perfci.report.charts.badge import (
    MAX_LABEL_LENGTH,
    TEXT_COLOUR,
    TONE_COLOURS,
    Badge,
    build_project_badge,
    build_series_badge,
    render_badge,
)
from perfci.report.charts.embedded_chart import render_embedded_chart
from perfci.report.series_trend import Trend, build_trend
from tests.support.report_builders import EXPECTED, a_failure, a_history, a_series, a_verdict

HOSTILE = '<script>alert("1")</script>&\N{RIGHT-TO-LEFT OVERRIDE}' + "x" * 300
SVG = "{http://www.w3.org/2000/svg}"


def a_candidate_trend() -> Trend:
    history = a_history(step_at=99)
    candidate = ChangePoint(a_series(), history[25].commit.sha, history[22].commit.sha, 0.0147, 0.0132)
    return build_trend(a_series(), history, [candidate], [])


@pytest.mark.parametrize(
    ("trend", "badge"),
    [
        (
            build_trend(a_series(), a_history(), [], [a_verdict()]),
            Badge("train.time_step", "14.67 ms · regression +18.3 %", "worse"),
        ),
        (
            build_trend(a_series(), a_history(step_at=99), [], []),
            Badge("train.time_step", "12.40 ms · no regression", "same"),
        ),
        (a_candidate_trend(), Badge("train.time_step", "13.20 ms · candidate change", "unsure")),
        (
            build_trend(a_series(), [*a_history(), a_failure(30)], [], []),
            Badge("train.time_step", "oom", "worse"),
        ),
        (
            build_trend(a_series(), [*a_history(), a_failure(30, Status.SKIPPED)], [], []),
            Badge("train.time_step", "not available", "void"),
        ),
        (build_trend(a_series(), [], [], []), Badge("train.time_step", "not measured", "void")),
    ],
)
def test_states_the_newest_value_and_what_is_open(trend: Trend, badge: Badge) -> None:
    assert build_series_badge(trend) == badge


@pytest.mark.parametrize(
    ("open_incidents", "series", "message", "tone"),
    [(0, 0, "not measured", "void"), (0, 3, "no open incident", "same"), (2, 3, "2 open incidents", "worse")],
)
def test_states_how_many_incidents_are_open(
    open_incidents: int, series: int, message: str, tone: str
) -> None:
    badge = build_project_badge("acme/model", open_incidents=open_incidents, series=series)

    assert badge == Badge("acme/model", message, tone)


def test_a_badge_and_an_embedded_chart_match_their_expected_files() -> None:
    trend = build_trend(a_series(batch=8), a_history(), [], [a_verdict()])

    badge = render_badge(Badge("train.time_step", "14.67 ms · regression +18.3 %", "worse"))
    assert badge + "\n" == (EXPECTED / "badge.svg").read_text(encoding="utf-8")
    assert render_embedded_chart(trend) + "\n" == (EXPECTED / "embedded.svg").read_text(encoding="utf-8")


def test_an_embedded_chart_names_series_machine_and_symbols() -> None:
    svg = render_embedded_chart(build_trend(a_series(batch=8), a_history(), [], [a_verdict()]))

    texts = [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert texts[:2] == ["train.time_step(8)", "AMD EPYC, 2 cores, 16 GB"]
    assert texts[-6:] == [
        "commit",
        "middle 50 % of its processes (IQR)",
        "level",
        "confirmed change",
        "candidate",
        "failed",
    ]


@pytest.mark.parametrize("series", [a_series(HOSTILE), a_series("t", **{HOSTILE: HOSTILE})])
def test_hostile_names_stay_text_and_fit(series: Series) -> None:
    trend = build_trend(series, a_history(), [], [])

    for svg in (render_badge(build_series_badge(trend)), render_embedded_chart(trend)):
        root = ElementTree.fromstring(svg)
        assert [element.tag for element in root.iter() if "script" in element.tag] == []
        assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in svg
    assert len(build_series_badge(trend).label) <= MAX_LABEL_LENGTH


@pytest.mark.parametrize("colour", sorted({*TONE_COLOURS.values()}))
def test_the_text_of_a_badge_has_contrast(colour: str) -> None:
    assert contrast(TEXT_COLOUR, colour) >= 4.5


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2.2, 1.4.3."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * channel for weight, channel in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
