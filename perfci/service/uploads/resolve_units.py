"""Add the results of a metric to their runs once its unit and direction are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from sqlalchemy.orm import Session

from perfci.formats import run_document
from perfci.formats.format_types import ImportedRun, UnknownUnitResult
from perfci.formats.metric_identification import parse_direction
from perfci.formats.unit_conversion import UnitConversion, find_unit_conversion
from perfci.model import Metric, PerfciError, Result, SampleSummary
from perfci.service.audit_context import AuditContext
from perfci.store import unresolved_results
from perfci.store.jobs.work_queue_and_leases import enqueue_work
from perfci.store.projects import find_project, mark_projects_changed
from perfci.store.queries.measured_samples import load_run
from perfci.store.unresolved_results import UnitAnswer, UnresolvedResult
from perfci.store.writes.ingest import insert_results, recount_run_processes

UNNAMED_METRIC = "value"
"""The metric of formats that name only the benchmark."""


class WaitingResult(Protocol):
    """A result that waits for its unit, wherever it is: in a file, in the store or at a server."""

    @property
    def benchmark(self) -> str: ...

    @property
    def metric(self) -> str: ...

    @property
    def unit_in_file(self) -> str: ...


def resolve_results_of_same_meaning(
    tx: Session, record: UnresolvedResult, project_id: int, answer: UnitAnswer, context: AuditContext
) -> int:
    """Set what a result means, for all that mean the same; add them to their runs, and return how many."""
    waiting = unresolved_results.load_unresolved_results(tx, project_id)
    same = [other for other in waiting if other.meaning_key == record.meaning_key]
    resolved = sum(_resolve(tx, project_id, other, answer, context.at) for other in same)
    detail = {
        "format": record.format,
        "unit": answer.unit,
        "direction": answer.direction,
        "resolved": resolved,
    }
    context.add_audit_entry(tx, "result.resolve", record.metric, project_id, detail)
    mark_projects_changed(tx, [project_id])
    return resolved


def resolve_waiting_results(
    tx: Session, project: str, supplied: Mapping[str, UnitAnswer], at: datetime
) -> list[UnresolvedResult]:
    """Resolve waiting results by units supplied now or earlier; return those that were resolved.

    A unit that is supplied for what a file declares in another one is an error: 88 percent of something is
    not 88 of it.
    """
    project_record = find_project(tx, project)
    if project_record is None:
        return []
    earlier = unresolved_results.load_unit_answers(tx, project_record.id)
    resolved = []
    for record in unresolved_results.load_unresolved_results(tx, project_record.id):
        answer = find_supplied_unit(record, supplied) or earlier.get(record.meaning_key)
        if answer is not None and _resolve(tx, project_record.id, record, answer, at):
            resolved.append(record)
    return resolved


def find_supplied_unit(waiting: WaitingResult, supplied: Mapping[str, UnitAnswer]) -> UnitAnswer | None:
    """Find what a person supplied for a result, by one of its names; an error if the units contradict."""
    for name in list_metric_option_names(waiting):
        if answer := supplied.get(name):
            unit = waiting.unit_in_file
            if unit and _normalize_unit(unit) != _normalize_unit(answer.unit):
                raise PerfciError(
                    f"--metric {name}={answer.unit}:{answer.direction}: {name} is given in {unit}, "
                    f"so {name}={unit}:{answer.direction} was expected"
                )
            return answer
    return None


def list_metric_option_names(waiting: WaitingResult) -> tuple[str, ...]:
    """List the names by which a person may say what a result means, the most exact one first.

    ``value`` is the metric of files that name none, so it says nothing about what was measured.
    """
    benchmark, metric = waiting.benchmark, waiting.metric
    names = (f"{metric} of {benchmark}", benchmark)
    return names if metric == UNNAMED_METRIC else (*names, metric)


def format_metric_option(waiting: WaitingResult) -> str:
    """Format the option that would say what a result means, for whom it waits."""
    name = waiting.metric if waiting.metric != UNNAMED_METRIC else waiting.benchmark
    return f"--metric '{name}={waiting.unit_in_file or 'UNIT'}:lower' (or :higher)"


def resolve_imported_run(document: ImportedRun, supplied: Mapping[str, UnitAnswer]) -> ImportedRun:
    """Add those unresolved results to a run whose unit is supplied; the others stay unresolved."""
    added: list[Result] = []
    waiting: list[UnknownUnitResult] = []
    for item in document.unresolved:
        if answer := find_supplied_unit(item, supplied):
            added.append(_give_unit(item.result, answer))
        else:
            waiting.append(item)
    run = replace(document.run, results=(*document.run.results, *added))
    return document._replace(run=run, unresolved=tuple(waiting))


def parse_metric_option(text: str) -> tuple[str, UnitAnswer]:
    """Parse a metric, its unit and its better direction from ``threads=count:higher``."""
    metric, separator, rest = text.rpartition("=")
    unit, _, way = rest.rpartition(":")
    direction = parse_direction(way)
    if not (metric and separator and unit and direction):
        raise PerfciError(f"--metric {text}: expected NAME=UNIT:lower or NAME=UNIT:higher")
    return metric, UnitAnswer(unit, direction)


def _resolve(
    tx: Session, project_id: int, record: UnresolvedResult, answer: UnitAnswer, at: datetime
) -> bool:
    """Add one result to its run in the given unit; return False if it was resolved meanwhile."""
    if not unresolved_results.mark_result_resolved(tx, record, answer, at):
        return False
    run = load_run(tx, record.run_id)
    result = _give_unit(run_document.result_from_dict(record.document["result"], run), answer)
    if result.series not in {existing.series for existing in run.results}:
        insert_results(tx, project_id, [(record.run_id, result)])
        recount_run_processes(tx, record.run_id)
    enqueue_work(tx, project_id, "judge", [record.run_key], at)
    return True


def _normalize_unit(unit: str) -> UnitConversion:
    return find_unit_conversion(unit) or UnitConversion(unit.strip().lower())


def _give_unit(waiting: Result, answer: UnitAnswer) -> Result:
    """Give a result its unit, converted to seconds or bytes where that is a multiple of them."""
    scale = find_unit_conversion(answer.unit) or UnitConversion(answer.unit)
    metric = Metric(waiting.series.metric.name, scale.unit, answer.direction)
    return replace(
        waiting,
        series=replace(waiting.series, metric=metric),
        processes=tuple(
            replace(process, samples=tuple(map(scale.convert, process.samples)))
            for process in waiting.processes
        ),
        summary=waiting.summary and SampleSummary(scale.convert(waiting.summary.value), n=waiting.summary.n),
    )
