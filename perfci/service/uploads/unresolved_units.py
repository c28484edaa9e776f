"""Somebody says the unit and direction of a metric that was kept apart: its results become part of their runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from sqlalchemy.orm import Session

from perfci.formats import run_document
from perfci.formats.unit_conversion import Scale, direction_named, scale_of
from perfci.model import Metric, PerfciError, Process, Result, Run, Summary
from perfci.store.jobs import outbox
from perfci.store.projects import project as project_named
from perfci.store.queries import unresolved_results
from perfci.store.queries.measurements import load_run
from perfci.store.queries.unresolved_results import Answer, QuarantinedRecord
from perfci.store.writes.bulk_insert import count_processes, insert_results


def resolve(tx: Session, project_id: int, format: str | None, metric: str, answer: Answer, at: datetime) -> int:
    """Judge all results of a metric that wait, of any format or one, and all that come later; return how many."""
    done = 0
    for record in unresolved_results.same_metric(tx, project_id, format, metric):
        if unresolved_results.resolve(tx, record, answer, at):
            _insert(tx, project_id, record, answer)
            outbox.add(tx, project_id, "judge", record.run_key, at)
            done += 1
    return done


def apply_answers(tx: Session, project: str, said: Mapping[str, Answer], at: datetime) -> set[str]:
    """Resolve what waits and is answered now, or was for earlier files; return the names of those metrics."""
    found = project_named(tx, project)
    if found is None:
        return set()
    answers: list[tuple[str | None, str, Answer]] = [(None, metric, answer) for metric, answer in said.items()]
    answers += [
        (format, metric, answer) for (format, metric), answer in unresolved_results.answers(tx, found.id).items()
    ]
    return {metric for format, metric, answer in answers if resolve(tx, found.id, format, metric, answer, at)}


def meaning(told: str) -> tuple[str, Answer]:
    """``threads=count:higher``: a metric, its unit, and which way is good."""
    metric, equals, rest = told.rpartition("=")
    unit, _, way = rest.rpartition(":")
    direction = direction_named(way)
    if not (metric and equals and unit and direction):
        raise PerfciError(f"--metric {told}: expected NAME=UNIT:lower or NAME=UNIT:higher")
    return metric, Answer(unit, direction)


def _insert(tx: Session, project_id: int, record: QuarantinedRecord, answer: Answer) -> None:
    run = load_run(tx, record.run_id)
    result = _judged(record, run, answer)
    if result.series not in {one.series for one in run.results}:
        insert_results(tx, project_id, [(record.run_id, result)])
        count_processes(tx, record.run_id)


def _judged(record: QuarantinedRecord, run: Run, answer: Answer) -> Result:
    """The result in the unit that was said, in seconds and bytes where that is a multiple of them."""
    scale = scale_of(answer.unit) or Scale(answer.unit)
    kept = run_document.result_of(record.document["result"], run)
    return replace(
        kept,
        series=replace(kept.series, metric=Metric(kept.series.metric.name, scale.unit, answer.direction)),
        processes=tuple(_scaled(process, scale) for process in kept.processes),
        summary=kept.summary and Summary(scale.of(kept.summary.value), n=kept.summary.n),
    )


def _scaled(process: Process, scale: Scale) -> Process:
    return replace(process, samples=tuple(map(scale.of, process.samples)))
