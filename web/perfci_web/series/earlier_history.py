"""Find and load what another harness measured of a series before it begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy.orm import Session

from perfci.model import Series
from perfci.report.charts.joined_trend import EarlierHistory, join_earlier_history
from perfci.store.queries.measured_samples import load_histories_by_series_id
from perfci.store.queries.query_records import SeriesRecord
from perfci.verdicts.related_metrics import metric_name_without_clock
from perfci_web.load_series_trends import VerdictsAndChangePoints


def load_earlier_history(
    tx: Session, record: SeriesRecord, records: Sequence[SeriesRecord]
) -> EarlierHistory | None:
    """Load the history by another harness that this series goes on from.

    Of several one that is linked with it, then one of its machine, then the one that goes on for longest.
    """
    others = _find_series_of_other_harnesses(record, records)
    if not others:
        return None
    series_ids = {item.series: item.id for item in (record, *others)}
    histories = load_histories_by_series_id(tx, list(series_ids.values()))
    points = {series: histories[series_id] for series, series_id in series_ids.items()}
    trends = VerdictsAndChangePoints.load(tx, series_ids.values()).build_trends(points)
    own = record.series
    joined = [
        join_earlier_history(trends[own], points[own], trends[other.series], points[other.series])
        for other in others
    ]
    candidates = [history for history in joined if history is not None]
    return min(candidates, key=lambda history: _rank(history, own), default=None)


def _rank(history: EarlierHistory, own: Series) -> tuple[bool, bool, float]:
    moment = history.newest.committed_at
    age = -moment.timestamp() if moment else 0.0
    return history.bridge is None, history.series.machine != own.machine, age


def _find_series_of_other_harnesses(
    record: SeriesRecord, records: Iterable[SeriesRecord]
) -> list[SeriesRecord]:
    """Find what other methods measured of this cell and metric, by either clock: the longest first."""

    def key(series: Series) -> tuple[object, ...]:
        return series.parameters, metric_name_without_clock(series), series.metric.unit

    own = record.series
    others = [
        other for other in records if other.series.harness != own.harness and key(other.series) == key(own)
    ]
    return sorted(others, key=lambda other: -other.points)
