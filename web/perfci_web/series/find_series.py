"""Find the one series that an address means, or say which it may mean."""

from __future__ import annotations

from urllib.parse import parse_qsl

from flask import request
from sqlalchemy.orm import Session

from perfci.net.url_segments import decode_segment
from perfci.report.series_places import SeriesPlaces
from perfci.store.queries import series_search
from perfci.store.queries.query_records import SeriesRecord
from perfci_web.page_urls import series_matches_url_query
from perfci_web.series import view_model
from perfci_web.url_lookups import (
    PageNotFound,
    Suggestion,
    build_benchmark_not_found_error,
    build_project_links,
    raise_if_renamed,
    require_project,
)


def find_series(
    tx: Session, project: str, benchmark: str, metric: str
) -> tuple[SeriesRecord, list[SeriesRecord]]:
    """Find the one series of an address, and all series of its benchmark."""
    candidates, records = load_candidates(tx, project, benchmark, metric)
    record, _ = view_model.find_series_of_url(candidates, request.args)
    if record is None:
        raise build_no_series_error(project, candidates)
    return record, records


def find_series_by_key(tx: Session, project: str, key: str) -> SeriesRecord | None:
    """Find the series that a key names: what stands behind ``/s/`` in its address."""
    path, _, query = key.partition("?")
    benchmark, slash, metric = path.partition("/")
    try:
        names = decode_segment(benchmark), decode_segment(metric)
    except ValueError:
        return None
    if not slash:
        return None
    records = series_search.find_series_of_benchmark(tx, project, names[0])
    candidates = [record for record in records if record.series.metric.name == names[1]]
    return view_model.find_series_of_url(candidates, dict(parse_qsl(query, keep_blank_values=True)))[0]


def load_candidates(
    tx: Session, project: str, benchmark: str, metric: str
) -> tuple[list[SeriesRecord], list[SeriesRecord]]:
    """Load the series of a benchmark and metric, and those of all its metrics, the latest first."""
    require_project(tx, project)
    records = series_search.find_series_of_benchmark(tx, project, benchmark)
    candidates = [record for record in records if record.series.metric.name == metric]
    if not any(series_matches_url_query(record.series, request.args) for record in candidates):
        raise_if_renamed(tx, project, benchmark, metric)
    if not candidates:
        raise build_benchmark_not_found_error(tx, project, f"{benchmark} · {metric}")
    return candidates, records


def build_no_series_error(project: str, candidates: list[SeriesRecord]) -> PageNotFound:
    """Build the 404 of an address that means none of the series of its benchmark and metric, or several."""
    series = [record.series for record in candidates]
    links, places = build_project_links(project, series), SeriesPlaces(series)
    suggestions = [
        Suggestion(f"{item.label} {places.label(item)}".strip(), links.series(item)) for item in series
    ]
    name = f"{series[0].benchmark.name} · {series[0].metric.name}"
    text = f"{name} has {len(candidates)} series; the address names none of them exactly."
    return PageNotFound(text, suggestions, "Choose one")
