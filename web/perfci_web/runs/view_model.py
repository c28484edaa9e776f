"""The view model of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perfci.model import Commit, NamedValues, Series, Status
from perfci.number_format import format_count
from perfci.report.serializers import serialize_commit, serialize_series
from perfci.store.queries.comparisons.results_of_runs import StoredRunResult
from perfci.store.queries.query_records import RunRecord
from perfci_web.view_parts.list_search_and_paging import ListPage, ListQuery, build_list_page
from perfci_web.view_parts.table_row_groups import MissingReason, format_failure, group_series_by_reason


@dataclass(frozen=True, slots=True)
class MeasuredResult:
    """One result of a run with its level; None where every process carries a disqualifying flag."""

    series: Series
    level: float | None


@dataclass(frozen=True, slots=True)
class RunView:
    """The page of one run; ``results`` have a value, the others are in groups of one reason."""

    project: str
    record: RunRecord
    commit: Commit
    origin: NamedValues
    results: tuple[MeasuredResult, ...]
    failed: tuple[MissingReason, ...]
    unavailable: tuple[MissingReason, ...]

    @property
    def sentence(self) -> str:
        """What the run came to: ``12 series measured, 1 failed, 3 not available``."""
        failed, unavailable = (
            sum(len(reason.series) for reason in reasons) for reasons in (self.failed, self.unavailable)
        )
        parts = [f"{format_count(len(self.results), 'series', 'series')} measured"]
        parts += [f"{failed:,} failed"] if failed else []
        parts += [f"{unavailable:,} not available"] if unavailable else []
        return ", ".join(parts)

    @property
    def duration_s(self) -> float | None:
        """How long the run took; None where its end is not known."""
        if self.record.finished_at is None:
            return None
        return (self.record.finished_at - self.record.started_at).total_seconds()

    @property
    def job(self) -> tuple[str, str]:
        """The number and attempt of the job that uploaded the run; empty for a local one."""
        origin = dict(self.origin)
        return origin.get("run_id", ""), origin.get("attempt", "")


def build_run_view(
    project: str,
    record: RunRecord,
    commit: Commit,
    origin: NamedValues,
    results: Sequence[tuple[Series, StoredRunResult]],
) -> RunView:
    """Sort the results of a run by name, and group what has no value by reason."""
    measured, failed, skipped = [], [], []
    for series, result in sorted(results, key=lambda item: item[0].label):
        if result.status is Status.OK:
            level = result.summary.level if result.summary is not None else result.value
            measured.append(MeasuredResult(series, level))
        elif result.status is Status.SKIPPED:
            skipped.append((result.reason, series))
        else:
            failed.append((format_failure(result.status, result.reason), series))
    return RunView(
        project,
        record,
        commit,
        origin,
        tuple(measured),
        group_series_by_reason(failed),
        group_series_by_reason(skipped),
    )


def paginate_results(page: RunView, query: ListQuery) -> ListPage[MeasuredResult]:
    """Search the results of a run, and cut out the page of an address."""
    shown = ListQuery(query.search, "results", query.page)
    return build_list_page("results", "Results", page.results, shown, lambda result: result.series)


def serialize_run(page: RunView) -> dict[str, Any]:
    """Return the run as JSON-able fields."""
    record = page.record
    return {
        "project": page.project,
        "key": record.key,
        "session": record.session_uid,
        "commit": serialize_commit(page.commit),
        "machine": record.machine.label,
        "variant": dict(record.variant.values),
        "environment": dict(record.environment.values),
        "suite": record.suite,
        "harness": record.harness,
        "started_at": record.started_at.isoformat(),
        "finished_at": record.finished_at.isoformat() if record.finished_at else None,
        "origin": dict(page.origin),
        "invalid": record.invalid.reason if record.invalid else None,
        "results": [
            {"series": serialize_series(result.series), "level": result.level} for result in page.results
        ],
        "failed": [{"reason": item.text, "series": len(item.series)} for item in page.failed],
        "unavailable": [{"reason": item.text, "series": len(item.series)} for item in page.unavailable],
    }
