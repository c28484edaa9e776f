"""Add the results of a metric to their runs once its unit and direction are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from sqlalchemy.orm import Session

from perfci.formats import run_document
from perfci.formats.metric_identification import parse_direction
from perfci.formats.unit_conversion import UnitConversion, find_unit_conversion
from perfci.model import Metric, PerfciError, Result, Run, SampleSummary
from perfci.store import results_without_unit
from perfci.store.jobs.work_queue_and_leases import enqueue_work
from perfci.store.projects import find_project
from perfci.store.queries.measured_samples import load_run
from perfci.store.results_without_unit import UnitAnswer, UnresolvedResult
from perfci.store.writes.ingest import insert_results, update_run_process_count


def apply_unit_to_results(
    tx: Session, project_id: int, format: str | None, metric: str, answer: UnitAnswer, at: datetime
) -> int:
    """Set the unit of a metric, for one format or all; add its waiting results and return how many."""
    done = 0
    for record in results_without_unit.load_unresolved_results_of_metric(tx, project_id, format, metric):
        if results_without_unit.mark_result_resolved(tx, record, answer, at):
            run = load_run(tx, record.run_id)
            result = _build_result(record, run, answer)
            if result.series not in {existing.series for existing in run.results}:
                insert_results(tx, project_id, [(record.run_id, result)])
                update_run_process_count(tx, record.run_id)
            enqueue_work(tx, project_id, "judge", [record.run_key], at)
            done += 1
    return done


def add_results_of_known_units(
    tx: Session, project: str, supplied: Mapping[str, UnitAnswer], at: datetime
) -> set[str]:
    """Resolve waiting results by units supplied now or earlier; return the resolved metric names."""
    project_record = find_project(tx, project)
    if project_record is None:
        return set()
    answers: list[tuple[str | None, str, UnitAnswer]] = [
        (None, metric, answer) for metric, answer in supplied.items()
    ]
    answers += [
        (format, metric, answer)
        for (format, metric), answer in results_without_unit.load_unit_answers(tx, project_record.id).items()
    ]
    return {
        metric
        for format, metric, answer in answers
        if apply_unit_to_results(tx, project_record.id, format, metric, answer, at)
    }


def parse_metric_unit(text: str) -> tuple[str, UnitAnswer]:
    """Parse a metric, its unit and its better direction from ``threads=count:higher``."""
    metric, separator, rest = text.rpartition("=")
    unit, _, way = rest.rpartition(":")
    direction = parse_direction(way)
    if not (metric and separator and unit and direction):
        raise PerfciError(f"--metric {text}: expected NAME=UNIT:lower or NAME=UNIT:higher")
    return metric, UnitAnswer(unit, direction)


def _build_result(record: UnresolvedResult, run: Run, answer: UnitAnswer) -> Result:
    """Build the result in the given unit, converted to seconds or bytes where that is a multiple of them."""
    scale = find_unit_conversion(answer.unit) or UnitConversion(answer.unit)
    waiting = run_document.result_from_dict(record.document["result"], run)
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
