"""The view model of the environment: what changed under a project, machine by machine, newest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from perfci.model import Commit, EnvironmentChange, Machine
from perfci.report.environment_changes import FIRST_NAMES, MAX_CHANGE_SHARE, reading_order
from perfci.store.queries.machine_activity import EnvironmentRecord, EnvironmentSwitch
from perfci.verdicts.environment_changes import diff_environments

MIN_RESTLESS_CHANGES = 5
"""Fewest changes of a value that may count as changing all the time."""


@dataclass(frozen=True, slots=True)
class EnvironmentEvent:
    """What changed together on one machine; ``places`` counts the suites and variants that met it."""

    machine: Machine
    changes: tuple[EnvironmentChange, ...]
    base: Commit
    head: Commit
    changed_at: datetime
    places: int


@dataclass(frozen=True, slots=True)
class MachineEnvironment:
    """The newest environment of a machine, and since when nothing of it changed."""

    record: EnvironmentRecord
    last_change: datetime | None

    @property
    def unknown(self) -> list[str]:
        """What a reader looks for first and the environment does not say.

        The processor is the machine's, and one that is known to have no accelerator has no driver.
        """
        machine = self.record.machine
        absent = {"cpu"} | ({"driver", "cuda"} if machine.cpu and not machine.accelerator else set())
        recorded = [name.lower() for name, value in self.record.newest.values if value]
        wanted = [name for name in FIRST_NAMES if name not in absent]
        return [name for name in wanted if not any(name in own for own in recorded)]


@dataclass(frozen=True, slots=True)
class EnvironmentTimeline:
    """All events, newest first; ``restless`` are the values that change too often to explain anything."""

    events: tuple[EnvironmentEvent, ...]
    restless: Mapping[Machine, Mapping[str, int]]

    def last_change(self, machine: Machine) -> datetime | None:
        return next((event.changed_at for event in self.events if event.machine == machine), None)


def build_environment_timeline(
    switches: Iterable[EnvironmentSwitch], runs: Mapping[Machine, int]
) -> EnvironmentTimeline:
    """Build the timeline; ``runs`` counts the runs of each machine, against which restless values are told.

    Equal changes of one machine on one day are one event, whichever suites and variants met them.
    """
    differences = [(switch, diff_environments(switch.before, switch.after)) for switch in switches]
    counts: dict[Machine, Counter[str]] = {}
    for switch, changes in differences:
        counts.setdefault(switch.machine, Counter()).update(change.name for change in changes)
    restless = {
        machine: {
            name: count
            for name, count in names.items()
            if count >= MIN_RESTLESS_CHANGES and count > MAX_CHANGE_SHARE * runs.get(machine, 0)
        }
        for machine, names in counts.items()
    }
    groups: dict[object, list[tuple[EnvironmentSwitch, tuple[EnvironmentChange, ...]]]] = {}
    for switch, changes in differences:
        meaningful = tuple(change for change in changes if change.name not in restless[switch.machine])
        if meaningful:
            key = switch.machine, meaningful, switch.changed_at.date()
            groups.setdefault(key, []).append((switch, meaningful))
    events = [_join(members) for members in groups.values()]
    ordered = sorted(events, key=lambda event: (event.changed_at, event.head.sha), reverse=True)
    return EnvironmentTimeline(
        tuple(ordered), {machine: names for machine, names in restless.items() if names}
    )


def _join(members: list[tuple[EnvironmentSwitch, tuple[EnvironmentChange, ...]]]) -> EnvironmentEvent:
    """The first of equal changes stands for all."""
    first, changes = min(members, key=lambda member: (member[0].changed_at, member[0].head.sha))
    return EnvironmentEvent(
        first.machine,
        tuple(sorted(changes, key=reading_order)),
        first.base,
        first.head,
        first.changed_at,
        len(members),
    )


def list_machines(
    records: Iterable[EnvironmentRecord], timeline: EnvironmentTimeline
) -> list[MachineEnvironment]:
    return [MachineEnvironment(record, timeline.last_change(record.machine)) for record in records]


def serialize_timeline(
    project: str, machines: Iterable[MachineEnvironment], timeline: EnvironmentTimeline
) -> dict[str, Any]:
    """Return the JSON of the page."""
    return {
        "project": project,
        "machines": [
            {
                "machine": each.record.machine.label,
                "runs": each.record.runs,
                "last_run_at": each.record.last_run_at.isoformat(),
                "last_change_at": each.last_change.isoformat() if each.last_change else None,
                "environment": dict(each.record.newest.values),
                "unknown": each.unknown,
                "restless": dict(timeline.restless.get(each.record.machine, {})),
            }
            for each in machines
        ],
        "changes": [
            {
                "machine": event.machine.label,
                "changed_at": event.changed_at.isoformat(),
                "base": event.base.sha,
                "head": event.head.sha,
                "changes": [
                    {"name": change.name, "before": change.before, "after": change.after}
                    for change in event.changes
                ],
            }
            for event in timeline.events
        ],
    }
