"""What did not come, in words: late suites, silent machines, reports that lack what they used to hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from perfci.model import Status
from perfci.report.number_format import counting
from perfci.service.missing_data import cadence
from perfci.store.incidents.reporting_schedules import Expectation
from perfci.store.queries.unresolved_results import QuarantinedRecord

UNGUARDED_AFTER = timedelta(days=7)
"""A new metric may wait so long for somebody to say its unit; until then nobody sees it get worse."""

LATE, SILENT, VANISHED, SHRUNKEN, FAILED, UNGUARDED = "late", "silent", "vanished", "shrunken", "failed", "unguarded"

Held = Mapping[int, Status]
"""The series of a report and how each ended."""


@dataclass(frozen=True, slots=True)
class Absence:
    """Something that did not come. ``key`` names it, whatever is said of it; ``place`` is where it should come from.

    ``covers`` are the keys of others that are part of it.
    """

    key: str
    headline: str
    explanation: str
    place: str = ""
    series_ids: frozenset[int] = field(default_factory=frozenset)
    covers: frozenset[str] = field(default_factory=frozenset)


def key_of(word: str, one: Expectation) -> str:
    return f"{word} {one.source.machine_id} {one.source.suite} {one.source.branch}"


def late(expected: Iterable[Expectation], clock: datetime) -> list[Absence]:
    """Suites that are late; where all of a machine are, it is the machine that says nothing."""
    of_machine: dict[int, list[Expectation]] = defaultdict(list)
    for one in expected:
        if one.every_s is not None and one.last_run_at is not None:
            of_machine[one.source.machine_id].append(one)
    found = []
    for its in of_machine.values():
        missed = [one for one in its if _is_late(one, clock)]
        found += [_silent(its)] if len(missed) == len(its) > 1 else list(map(_missed, missed))
    return found


def in_reports(one: Expectation, reports: Sequence[Held]) -> list[Absence]:
    """What the newest of the last reports lacks; the loss of many series at once is one absence."""
    good = [{k for k, status in held.items() if status is Status.OK} for held in reports]
    where = f"{_name(one)} on {one.machine.label}"
    if cadence.all_failed(reports[-1]):
        told = f"None of {counting(len(reports[-1]), 'series', 'series')} was measured: each says why."
        return [_lacking(FAILED, one, f"everything failed in {where}", told, reports[-1])]
    if cadence.shrunken([len(held) for held in good]):
        lost = set().union(*good[:-1]) - good[-1]
        told = f"{len(good[-1])} series were measured, and up to {max(map(len, good))} before."
        return [_lacking(SHRUNKEN, one, f"{where} measures less than before", told, lost)]
    if gone := cadence.vanished([set(held) for held in reports]):
        told = "Was a benchmark renamed or deleted, or does it not start any more?"
        return [_lacking(VANISHED, one, f"{len(gone)} series vanished from {where}", told, gone)]
    return []


def unguarded(waiting: Iterable[QuarantinedRecord], now: datetime) -> list[Absence]:
    """Metrics that nobody judges, because nobody has said what they mean."""
    old = {(one.format, one.metric) for one in waiting if one.created_at < now - UNGUARDED_AFTER}
    return [
        Absence(
            f"{UNGUARDED} {format} {metric}",
            f"{metric} of {format} is measured, but nobody judges it",
            "Its unit or direction is not known: say them with --metric at ingest, or over the API.",
        )
        for format, metric in sorted(old)
    ]


def _is_late(one: Expectation, clock: datetime) -> bool:
    assert one.last_run_at is not None
    return clock > cadence.late_since(one.last_run_at, one.every_s or 0.0)


def _missed(one: Expectation) -> Absence:
    return Absence(
        key_of(LATE, one),
        f"{_name(one)} has not reported from {one.machine.label} since {one.last_run_at:%Y-%m-%d %H:%M} UTC",
        f"It reports at least every {_hours(one.every_s or 0.0)}: is its job still there, and does it still upload?",
        str(one.source.machine_id),
    )


def _silent(its: Sequence[Expectation]) -> Absence:
    last, first = max(one.last_run_at for one in its if one.last_run_at), its[0]
    return Absence(
        f"{SILENT} {first.source.machine_id}",
        f"{first.machine.label} has not reported anything since {last:%Y-%m-%d %H:%M} UTC",
        f"All {len(its)} suites that it measures are late: is the runner up and connected?",
        str(first.source.machine_id),
        covers=frozenset(key_of(LATE, one) for one in its),
    )


def _lacking(word: str, one: Expectation, headline: str, told: str, series_ids: Iterable[int]) -> Absence:
    return Absence(key_of(word, one), headline, told, str(one.source.machine_id), frozenset(series_ids))


def _name(one: Expectation) -> str:
    suite = one.source.suite or "a suite without a name"
    return f"{suite} ({one.source.branch})" if one.source.branch else suite


def _hours(seconds: float) -> str:
    hours = seconds / 3600
    return counting(round(hours / 24), "day") if hours >= 48 else counting(max(1, round(hours)), "hour")
