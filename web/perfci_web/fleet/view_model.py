"""The view model of the fleet: each machine with its runs, its reporting schedules and its noise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

from perfci.model import Machine
from perfci.number_format import format_age, format_count, format_rough_duration
from perfci.service.missing_data.find_missing_data import MissingData
from perfci.store.incidents.reporting_schedules_and_run_arrivals import ReportingSchedule
from perfci.store.queries.machine_activity import MachineActivity
from perfci.verdicts.project_noise import SeriesNoiseFloor

RECENT_DAYS = (7, 30)
"""The times that runs are counted over."""

CSV_COLUMNS = (
    "machine",
    "state",
    "missing",
    "suites",
    "last_run_at",
    "runs",
    *(f"runs_{days}d" for days in RECENT_DAYS),
    "failed_results_30d",
    "median_noise_floor",
)

MAX_QUEUE_DELAY_S = 900
"""Work that waits longer has no worker, or too slow a one."""


@dataclass(frozen=True, slots=True)
class WorkerState:
    """Whether a process holds the lease of judging, and how long the oldest upload waits for it."""

    is_held: bool
    oldest_wait_s: float | None

    @property
    def sentence(self) -> str:
        waits = self.oldest_wait_s
        if waits is not None and waits > MAX_QUEUE_DELAY_S:
            return (
                f"The oldest upload waits for {format_rough_duration(waits)} to be judged: "
                "does perfci judge-worker run?"
            )
        backlog = "nothing waits" if waits is None else f"the oldest upload waits for {waits:.0f} s"
        return f"{'A judge worker runs' if self.is_held else 'No judge worker runs'}; {backlog}."


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One machine; ``missing`` is what it should have reported and did not."""

    activity: MachineActivity
    schedules: tuple[ReportingSchedule, ...]
    missing: tuple[MissingData, ...]
    noise: float | None
    floors: int

    @property
    def machine(self) -> Machine:
        return self.activity.machine

    @property
    def suites(self) -> str:
        return ", ".join(suite or "without a name" for suite in self.activity.suites)

    @property
    def cadence(self) -> str:
        """How often it reports, as its most frequent suite does; empty where that is not known."""
        intervals = [each.every_s for each in self.schedules if each.every_s is not None and not each.muted]
        return f"every {format_rough_duration(min(intervals))}" if intervals else ""

    @property
    def word(self) -> str:
        if self.missing:
            return "late"
        return "on time" if self.cadence else "no schedule"


@dataclass(frozen=True, slots=True)
class FleetView:
    """All machines, the one that ran last first, the worker of the server and the open orders."""

    rows: tuple[FleetRow, ...]
    worker: WorkerState
    open_orders: int
    headline: str


def build_fleet_view(
    activities: Iterable[MachineActivity],
    schedules: Iterable[ReportingSchedule],
    missing: Iterable[MissingData],
    floors: Iterable[SeriesNoiseFloor],
    worker: WorkerState,
    open_orders: int,
    now: datetime,
) -> FleetView:
    """Build the page."""
    of_machine: dict[int, list[ReportingSchedule]] = defaultdict(list)
    for schedule in schedules:
        of_machine[schedule.source.machine_id].append(schedule)
    noises: dict[Machine, list[float]] = defaultdict(list)
    for floor in floors:
        noises[floor.series.machine].append(floor.noise_floor)
    late: dict[str, list[MissingData]] = defaultdict(list)
    for item in missing:
        late[item.machine_key].append(item)
    rows = tuple(
        FleetRow(
            activity,
            tuple(of_machine[activity.machine_id]),
            tuple(late[str(activity.machine_id)]),
            median(values) if (values := noises[activity.machine]) else None,
            len(values),
        )
        for activity in activities
    )
    return FleetView(rows, worker, open_orders, describe_fleet(rows, now))


def describe_fleet(rows: Sequence[FleetRow], now: datetime) -> str:
    """Say in a sentence whether the machines are alive."""
    if not rows:
        return "No machine has reported a run yet."
    last = f"the last run was {format_age((now - rows[0].activity.last_run_at).total_seconds())}"
    late = [row for row in rows if row.missing]
    if late:
        verb = "is" if len(late) == 1 else "are"
        names = "The machine" if len(rows) == 1 else f"{len(late)} of {len(rows)} machines"
        return f"{names} {verb} late: {late[0].missing[0].headline}."
    scheduled = sum(row.word == "on time" for row in rows)
    if not scheduled:
        machines = format_count(len(rows), "machine")
        return f"{machines}, and no reporting schedule is known: {last}."
    names = "The machine is" if len(rows) == 1 else f"{scheduled} of {len(rows)} machines are"
    return f"{names} on time: {last}."


def serialize_fleet(project: str, view: FleetView) -> dict[str, Any]:
    """Return the JSON of the page."""
    return {
        "project": project,
        "sentence": view.headline,
        "worker": view.worker.is_held,
        "oldest_wait_s": view.worker.oldest_wait_s,
        "open_orders": view.open_orders,
        "machines": [
            {
                "machine": row.machine.label,
                "state": row.word,
                "missing": [item.headline for item in row.missing],
                "suites": list(row.activity.suites),
                "last_run_at": row.activity.last_run_at.isoformat(),
                "runs": row.activity.runs,
                **{
                    f"runs_{days}d": count
                    for days, count in zip(RECENT_DAYS, row.activity.runs_since, strict=True)
                },
                "failed_results_30d": row.activity.failed_results,
                "median_noise_floor": row.noise,
            }
            for row in view.rows
        ],
    }
