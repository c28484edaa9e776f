"""Verdicts and trends as plain JSON values: the machine-readable twins of what pages and comments say."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from perfci.model import Commit, Series, Verdict
from perfci.report.charts.plot_axes import trend_scale, value_range
from perfci.report.charts.series_trend import Dot, Mark, Trend
from perfci.report.number_format import Scale
from perfci.report.verdict_labels import status_word
from perfci.report.verdict_sentences import trend_sentence, verdict_sentence

Json = dict[str, Any]


def series_fields(series: Series) -> Json:
    metric = series.metric
    return {
        "benchmark": series.benchmark.name,
        "version": series.benchmark.version,
        "parameters": dict(series.parameters),
        "metric": metric.name,
        "unit": metric.unit,
        "direction": metric.direction,
        "machine": series.machine.label,
        "variant": dict(series.variant.values),
        "harness": series.harness,
    }


def verdict_fields(verdict: Verdict) -> Json:
    """Every field of a verdict under the name it has in the model, and the sentence all surfaces print."""
    return {
        "verdict": verdict.kind.value,
        "stage": verdict.stage.value,
        "sentence": verdict_sentence(verdict),
        "series": series_fields(verdict.series),
        "base": verdict.base,
        "head": verdict.head,
        "ratio": verdict.ratio,
        "interval": [verdict.interval.lo, verdict.interval.hi] if verdict.interval else None,
        "base_level": verdict.base_level,
        "head_level": verdict.head_level,
        "noise_floor": verdict.noise_floor,
        "mde": verdict.mde,
        "pairs": verdict.pairs,
        "pairs_to_decide": verdict.pairs_to_decide,
        "p_value": verdict.p_value,
        "reason": verdict.reason,
        "evidence": list(verdict.evidence),
    }


def trend_fields(trend: Trend) -> Json:
    """A series with its dots, levels and changes; values are raw, ``scale`` and ``axis`` say how a page shows them."""
    scale = trend_scale(trend)
    return {
        "series": series_fields(trend.series),
        "sentence": str(trend_sentence(trend)),
        "scale": {"factor": scale.factor, "symbol": scale.symbol},
        "axis": value_range(trend) if trend.measured else None,
        "commits": trend.commits,
        "points": [_dot_fields(dot, scale) for dot in trend.dots],
        "levels": [
            {"first": one.first, "last": one.last, "value": one.value, "shown": scale.text(one.value)}
            for one in trend.levels
        ],
        "changes": [_mark_fields(mark) for mark in trend.marks],
    }


def commit_fields(commit: Commit) -> Json:
    return {
        "commit": commit.sha,
        "subject": commit.subject,
        "author": commit.author,
        "committed_at": _moment(commit.committed_at),
    }


def _dot_fields(dot: Dot, scale: Scale) -> Json:
    return {
        "index": dot.index,
        **commit_fields(dot.commit),
        "status": dot.status.value,
        "value": dot.level,
        "shown": status_word(dot.status) if dot.level is None else scale.text(dot.level),
        "q25": dot.lo,
        "q75": dot.hi,
        "processes": dot.processes,
        "merged": dot.merged,
        "reason": dot.reason,
    }


def _mark_fields(mark: Mark) -> Json:
    return {
        "index": mark.index,
        "last_good_index": mark.last_good_index,
        "commit": mark.commit,
        "last_good": mark.last_good,
        "ratio": mark.ratio,
        "kind": mark.kind.value,
        "state": mark.state,
        "verdict": verdict_fields(mark.verdict) if mark.verdict else None,
    }


def _moment(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="seconds") if moment else None
