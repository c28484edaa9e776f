"""Serialize series, verdicts, trends, incidents and the noise of projects to JSON fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perfci.model import ChangePoint, Commit, Metric, Retest, Series, TailVerdict, Verdict
from perfci.number_format import DisplayScale
from perfci.report.charts.plot_axes import choose_trend_display_scale, format_level_label, value_axis_range
from perfci.report.incidents.incident_sections import incident_counts_sentence
from perfci.report.incidents.incident_text import (
    CommitsBySha,
    alert_decision_sentence,
    incident_explanation,
    incident_headline,
    member_change_sentence,
    next_measurement_command,
)
from perfci.report.incidents.retest_and_creep_text import (
    creep_compare_command,
    creep_sentence,
    retest_command,
)
from perfci.report.page_summaries import trend_summary
from perfci.report.series_trend import ChangeMark, Trend, change_mark_sentence
from perfci.report.trend_dots import Dot
from perfci.report.verdict_text import change_levels_phrase, status_label, tail_phrase, verdict_sentence
from perfci.verdicts.history.release_creep import Creep
from perfci.verdicts.incidents.paging_budget import BudgetedIncident
from perfci.verdicts.project_noise import (
    FalseAlarmMeter,
    FalseAlarmRate,
    NoiseWindow,
    ProjectNoise,
    SeriesNoiseFloor,
)

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
        "tail": serialize_tail_verdict(verdict.tail, verdict.series.metric),
    }


def serialize_tail_verdict(tail: TailVerdict | None, metric: Metric) -> JsonFields | None:
    """Serialize the verdict on the tail; None where there is none."""
    if tail is None:
        return None
    return {
        "quantile": metric.tail_name,
        "verdict": tail.kind.value,
        "ratio": tail.ratio,
        "interval": [tail.interval.lo, tail.interval.hi] if tail.interval else None,
    }


def serialize_trend(trend: Trend) -> JsonFields:
    """Serialize a series with its dots, levels and changes.

    Values are raw; ``scale`` and ``axis`` say how a page displays them.
    """
    scale = choose_trend_display_scale(trend)
    return {
        "series": serialize_series(trend.series),
        "sentence": str(trend_summary(trend)),
        "scale": {"factor": scale.factor, "symbol": scale.symbol},
        "axis": value_axis_range(trend.dots) if trend.measured_dots else None,
        "commits": trend.commit_count,
        "points": [_serialize_dot(dot, scale) for dot in trend.dots],
        "levels": [
            {
                "first": level.first,
                "last": level.last,
                "value": level.value,
                "value_text": scale.format_with_unit(level.value),
                "end": level.end,
                "label": format_level_label(level, scale),
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
        "value_text": status_label(dot.status) if dot.level is None else scale.format_with_unit(dot.level),
        "q25": dot.lo,
        "q75": dot.hi,
        "processes": dot.processes,
        "merged": dot.merged,
        "reason": dot.reason,
    }


def _serialize_mark(mark: ChangeMark) -> JsonFields:
    interval = mark.change.interval
    return {
        "index": mark.index,
        "last_good_index": mark.last_good_index,
        "commit": mark.commit,
        "last_good": mark.last_good,
        "ratio": mark.ratio,
        "interval": [interval.lo, interval.hi] if interval else None,
        "before": mark.change.before,
        "after": mark.change.after,
        "sentence": change_mark_sentence(mark, mark.change.series.metric),
        "levels_text": change_levels_phrase(mark.change),
        "tail": serialize_tail_verdict(mark.tail, mark.change.series.metric),
        "tail_text": tail_phrase(mark.tail, mark.change.series.metric) if mark.tail else "",
        "kind": mark.kind.value,
        "state": mark.state,
        "verdict": serialize_verdict(mark.verdict) if mark.verdict else None,
    }


def serialize_change_size(change: ChangePoint) -> JsonFields:
    """Serialize the levels and the size of a change, with the 95 % interval of the size."""
    interval = change.relative_interval
    return {
        "relative_change": change.relative_change,
        "relative_change_interval": list(interval) if interval else None,
        "before": change.before,
        "after": change.after,
    }


def serialize_derived_incident(
    budgeted: BudgetedIncident, commits: CommitsBySha, pages_per_week: int
) -> JsonFields:
    """Serialize an incident with its members."""
    members = [
        {
            "series": serialize_series(change.series),
            "sentence": member_change_sentence(change),
            "last_good": change.last_good,
            "commit": change.commit,
            **serialize_change_size(change),
        }
        for change in budgeted.incident.members
    ]
    return serialize_derived_incident_summary(budgeted, commits, pages_per_week) | {"members": members}


def serialize_derived_incident_summary(
    budgeted: BudgetedIncident, commits: CommitsBySha, pages_per_week: int
) -> JsonFields:
    """Serialize an incident without its members, which may be thousands."""
    incident = budgeted.incident
    moment = incident.measured_at
    return {
        "id": incident.id,
        "kind": incident.kind.value,
        "sentence": incident_headline(incident, commits),
        "explanation": incident_explanation(incident, commits),
        "disposition": budgeted.disposition.value,
        "ongoing": incident.ongoing,
        "open": budgeted.needs_attention,
        "disposition_text": alert_decision_sentence(budgeted, pages_per_week),
        "week": budgeted.week or None,
        "last_good": incident.last_good,
        "commit": incident.commit,
        "measured_at": moment.isoformat(timespec="seconds") if moment else None,
        "cause": incident.cause or None,
        "environment": [
            {"name": change.name, "before": change.before or None, "after": change.after or None}
            for change in incident.environment_changes
        ],
        "ambiguous": incident.ambiguous,
        "recovered_at": incident.reverted_by or None,
        "sessions": list(incident.sessions),
        "p_value": incident.smallest_p_value,
        "confirmed_series": incident.confirmed_count,
        "has_sufficient_evidence": incident.settled,
        "candidate_commits": [
            {
                **serialize_commit(candidate.commit),
                "members": candidate.members,
                "weight": round(candidate.weight, 6),
            }
            for candidate in incident.candidates
        ],
        "next_measurement": next_measurement_command(incident) or None,
    }


def serialize_derived_incident_overview(
    project: str,
    budgeted_incidents: Sequence[BudgetedIncident],
    retests: Sequence[Retest],
    creeps: Sequence[Creep],
    commits: CommitsBySha,
    pages_per_week: int,
) -> JsonFields:
    """Serialize what ``perfci incidents list`` and the incidents page show."""
    return {
        "project": project,
        "sentence": incident_counts_sentence(budgeted_incidents, len(retests), len(creeps)),
        "pages_per_week": pages_per_week,
        "incidents": [
            serialize_derived_incident(budgeted, commits, pages_per_week) for budgeted in budgeted_incidents
        ],
        "retests": [serialize_retest_request(retest) for retest in retests],
        "slow_drifts": [serialize_creep(creep) for creep in creeps],
    }


def serialize_retest_request(retest: Retest) -> JsonFields:
    """Serialize a retest and the command that runs it."""
    return {
        "series": serialize_series(retest.series),
        "base": retest.base,
        "head": retest.head,
        "reason": retest.reason,
        "command": retest_command(retest),
    }


def serialize_creep(creep: Creep) -> JsonFields:
    """Serialize the slow drift of a series since a release."""
    return {
        "series": serialize_series(creep.series),
        "sentence": creep_sentence(creep),
        "release": creep.release,
        "base": creep.base,
        "head": creep.head,
        "drift": creep.drift_ratio,
        "interval": [creep.interval.lo, creep.interval.hi] if creep.interval else None,
        "total": creep.total_ratio,
        "p_value": creep.p_value,
        "paired": creep.paired,
        "command": creep_compare_command(creep),
    }


def serialize_project_noise(project: str, noise: ProjectNoise) -> JsonFields:
    """Serialize the noise of a project to JSON fields."""
    moment = noise.last_compared_at
    return {
        "project": project,
        "last_aa_run_at": moment.isoformat(timespec="seconds") if moment else None,
        "windows": [_serialize_window(window) for window in noise.windows],
        "noise_floors": [serialize_noise_floor(floor) for floor in noise.floors],
    }


def serialize_noise_floor(floor: SeriesNoiseFloor) -> JsonFields:
    """Serialize the noise floor of one series to JSON fields."""
    return {
        "series": serialize_series(floor.series),
        "noise_floor": floor.noise_floor,
        "comparisons": floor.comparisons,
        "bar": floor.bar,
        "raised": floor.raises_bar,
    }


def _serialize_window(window: NoiseWindow) -> JsonFields:
    candidates, confirmations = window.candidates, window.confirmations
    return {
        "days": window.days,
        "aa_comparisons": window.comparisons,
        "false_alarms": _serialize_meter(window.overall),
        "suites": {name: _serialize_meter(meter) for name, meter in window.suites.items()},
        "classes": {kind.value: _serialize_meter(meter) for kind, meter in window.classes.items()},
        "different_commits": {
            "candidates": candidates.total,
            "confirmed": candidates.confirmed,
            "refuted": candidates.refuted,
            "undecided": candidates.undecided,
            "not_validated": candidates.unsettled,
            "confirmed_changes": confirmations.total,
            "retracted": confirmations.retracted,
        },
    }


def _serialize_meter(meter: FalseAlarmMeter) -> JsonFields:
    return {
        "screening": _serialize_rate(meter.screening),
        "confirmed": _serialize_rate(meter.confirmed),
        "not_comparable": meter.not_compared,
    }


def _serialize_rate(rate: FalseAlarmRate) -> JsonFields:
    return {
        "alarms": rate.alarms,
        "verdicts": rate.verdicts,
        "share": rate.share,
        "interval": list(rate.interval),
    }
