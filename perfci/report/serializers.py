"""Serialize series, verdicts, commits and trends to JSON fields."""

from __future__ import annotations

from typing import Any

from perfci.model import Commit, Series, Verdict
from perfci.report.charts.plot_axes import choose_trend_scale, value_axis_range
from perfci.report.charts.series_trend import ChangeMark, Dot, Trend
from perfci.report.number_format import DisplayScale
from perfci.report.verdict_labels import status_label
from perfci.report.verdict_sentences import trend_sentence, verdict_sentence

JsonFields = dict[str, Any]


def serialize_series(series: Series) -> JsonFields:
    """Serialize what identifies a series."""
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


def serialize_verdict(verdict: Verdict) -> JsonFields:
    """Serialize every field of a verdict, under its name in the model, and its sentence."""
    return {
        "verdict": verdict.kind.value,
        "stage": verdict.stage.value,
        "sentence": verdict_sentence(verdict),
        "series": serialize_series(verdict.series),
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


def serialize_trend(trend: Trend) -> JsonFields:
    """Serialize a series with its dots, levels and changes.

    Values are raw; ``scale`` and ``axis`` say how a page displays them.
    """
    scale = choose_trend_scale(trend)
    return {
        "series": serialize_series(trend.series),
        "sentence": str(trend_sentence(trend)),
        "scale": {"factor": scale.factor, "symbol": scale.symbol},
        "axis": value_axis_range(trend) if trend.measured_dots else None,
        "commits": trend.commit_count,
        "points": [_serialize_dot(dot, scale) for dot in trend.dots],
        "levels": [
            {
                "first": level.first,
                "last": level.last,
                "value": level.value,
                "value_text": scale.format_value(level.value),
            }
            for level in trend.levels
        ],
        "changes": [_serialize_mark(mark) for mark in trend.marks],
    }


def serialize_commit(commit: Commit) -> JsonFields:
    """Serialize what a page shows of a commit."""
    moment = commit.committed_at
    return {
        "commit": commit.sha,
        "subject": commit.subject,
        "author": commit.author,
        "committed_at": moment.isoformat(timespec="seconds") if moment else None,
    }


def _serialize_dot(dot: Dot, scale: DisplayScale) -> JsonFields:
    return {
        "index": dot.index,
        **serialize_commit(dot.commit),
        "status": dot.status.value,
        "value": dot.level,
        "value_text": status_label(dot.status) if dot.level is None else scale.format_value(dot.level),
        "q25": dot.lo,
        "q75": dot.hi,
        "processes": dot.processes,
        "merged": dot.merged,
        "reason": dot.reason,
    }


def _serialize_mark(mark: ChangeMark) -> JsonFields:
    return {
        "index": mark.index,
        "last_good_index": mark.last_good_index,
        "commit": mark.commit,
        "last_good": mark.last_good,
        "ratio": mark.ratio,
        "kind": mark.kind.value,
        "state": mark.state,
        "verdict": serialize_verdict(mark.verdict) if mark.verdict else None,
    }
