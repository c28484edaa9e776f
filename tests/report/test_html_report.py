"""The static report: what it says, as text, and that names in it stay names."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from html import unescape

from perfci.model import Interval
from perfci.report.html_report.render_report import render_report
from perfci.report.html_report.report_contents import (
    ReportedChange,
    ReportedIncident,
    StaticReport,
    score_metrics,
)
from perfci.report.page_summaries import PageSummary
from perfci.report.series_trend import build_trend
from tests.support.builders import a_change_point, a_commit, a_history, a_series

HOSTILE = "</script><img src=x onerror=alert(1)>"
HOSTILE_SHOWN = "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"
TRAIN = a_series("train")
BUNDLE = "/* plotly.js */"


def a_report(**changes: object) -> StaticReport:
    change = a_change_point(
        TRAIN, commit=a_commit(4).sha, last_good=a_commit(3).sha, interval=Interval(1.15, 1.25)
    )
    trend = build_trend(TRAIN, a_history([1.0, 1.0, 1.0, 1.2, 1.2, 1.2]), [change])
    values: dict[str, object] = {
        "project": "acme/model",
        "written_at": datetime(2026, 5, 4, 12, tzinfo=UTC),
        "window": "in the last 30 days",
        "summary": PageSummary("1 open incident", "No regression has been confirmed on new pairs"),
        "incidents": (
            ReportedIncident(3, "regression", "train got 20.0 % slower", "Seen twice.", "new", "ada"),
        ),
        "incident_count": 1,
        "changes": (ReportedChange(change, a_commit(4), confirmed=False, incident=3),),
        "change_count": 1,
        "worse_count": 1,
        "scores": score_metrics([change], [TRAIN, a_series("generate")]),
        "trends": (trend,),
        "changed_series": 1,
        "last_measured_at": datetime(2026, 5, 3, tzinfo=UTC),
    }
    return StaticReport(**values | changes)  # type: ignore[arg-type]


def read_text(page: str) -> list[str]:
    """The lines that a reader without pictures reads."""
    body = page.partition("<main>")[2].partition("</main>")[0]
    for hidden in ("script", "svg"):
        body = re.sub(rf"<{hidden}.*?</{hidden}>", "", body, flags=re.DOTALL)
    cells = re.sub(r"</t[hd]>", " | ", re.sub(r"<br>", ", ", body))
    blocks = re.split(r"</(?:p|h1|h2|h3|tr|li|figcaption)>", cells)
    lines = [" ".join(unescape(re.sub(r"<[^>]+>", "", block)).split()) for block in blocks]
    return [line for line in lines if line]


def test_tells_incidents_changes_scores_and_trends() -> None:
    commit = a_commit(4)

    text = read_text(render_report(a_report(), BUNDLE))

    assert text == [
        "Performance of acme/model",
        "1 open incident.",
        "No regression has been confirmed on new pairs.",
        "Last measured 3 May 2026. Written 2026-05-04 12:00 UTC; changes in the last 30 days.",
        "Open incidents",
        "#3 train got 20.0 % slower",
        "Seen twice.",
        "regression · new · ada",
        "1 change in the last 30 days: 1 worse",
        "All on AMD EPYC, 2 cores, 23 GB.",
        "Series | Change | 95 % interval | Before → after | Commit |",
        f"train · time | +20.0 % | [+15.0, +25.0] % | 1.000 s → 1.200 s | {commit.sha[:10]} {commit.subject}"
        " Ada · 1 Mar 2026, not confirmed, incident #3 |",
        "Scorecard",
        "What these changes came to; a series that did not change counts as unchanged.",
        "Metric | Series | Worse | Better | Mean change in cost |",
        "time | 2 | 1 | 0 | +9.5 % |",
        "Trends",
        "All on AMD EPYC, 2 cores, 23 GB.",
        "train · time",
        "train is 1.200 s, +20.0 % since 0000000 (1 Mar 2026, not confirmed). Before: 1.000 s for 3 commits.",
        "6 commits, one dot each",
    ]


def test_says_how_much_it_leaves_out() -> None:
    text = read_text(render_report(a_report(change_count=240, incident_count=7, changed_series=30), BUNDLE))

    assert "The newest 1 of 240 changes." in text
    assert "1 of 7 open incidents." in text
    assert "1 series of the 30 that changed; --series 30 draws all." in text


def test_a_project_without_changes_has_neither_table_nor_script() -> None:
    quiet = a_report(
        incidents=(), incident_count=0, changes=(), change_count=0, worse_count=0, scores=(), trends=()
    )

    page = render_report(quiet, BUNDLE)

    assert "No incident is open." in read_text(page)
    assert "No change in the last 30 days" in read_text(page)
    assert BUNDLE not in page


def test_names_stay_names() -> None:
    series = a_series(HOSTILE, metric=HOSTILE)
    commit = a_commit(4, subject=HOSTILE, author=HOSTILE)
    change = a_change_point(series, commit=commit.sha, last_good=a_commit(3).sha)
    incident = ReportedIncident(1, "regression", HOSTILE, HOSTILE, "new", HOSTILE)
    trend = build_trend(series, a_history([1.0, 1.0, 1.2, 1.2]), [change])

    page = render_report(
        a_report(
            project=HOSTILE,
            summary=PageSummary(HOSTILE, HOSTILE),
            incidents=(incident,),
            changes=(ReportedChange(change, commit, confirmed=True),),
            scores=score_metrics([change], [series]),
            trends=(trend,),
        ),
        BUNDLE,
    )

    assert "<img" not in page
    assert page.count(HOSTILE_SHOWN) > 8
    assert page.count("<script") == page.count("</script>")


def test_carries_plotly_once_and_each_figure_as_json() -> None:
    report = a_report()

    page = render_report(a_report(trends=report.trends * 3), BUNDLE)
    figures = re.findall(r'<script type="application/json">(.*?)</script>', page)

    assert page.count(BUNDLE) == 1
    assert len(figures) == 3
    assert json.loads(figures[0])["data"][1]["y"] == [1.0, 1.0, 1.0, 1.2, 1.2, 1.2]
    assert len(set(re.findall(r'id="(trend-\d-title)"', page))) == 3
