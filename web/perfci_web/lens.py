"""The lens: the branch, machine, variant, time and evidence that lists of a project are restricted to.

It stands in the address, and links to other lists keep it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from flask import request
from sqlalchemy.orm import Session

from perfci.number_format import format_day
from perfci.report.series_places import short_axis_text
from perfci.store.projects import Project
from perfci.store.queries.measured_places import (
    EVERYWHERE,
    MeasuredPlace,
    PlaceFilter,
    count_commits_by_branch,
    load_measured_places,
    place_filter_of,
)
from perfci_web.place_slugs import machine_slug

BRANCH_KEY, MACHINE_KEY, SINCE_KEY, AXIS_PREFIX = "branch", "machine", "since", "axis."
CONFIRMED_KEY = "confirmed"
"""With the value 1, lists have nothing but what an A/B rerun confirmed."""

DEFAULT_WINDOW = "7d"
WINDOW_DAYS: Mapping[str, int | None] = {"7d": 7, "30d": 30, "90d": 90, "1y": 365, "all": None}
WINDOW_LABELS: Mapping[str, str] = {
    "7d": "7 days",
    "30d": "30 days",
    "90d": "90 days",
    "1y": "1 year",
    "all": "all time",
}

STALE_AFTER = timedelta(days=7)
"""Age of the last result from which on time windows end with it."""

MAX_VALUE_LENGTH = 200
"""Characters of a value of an address; a longer one restricts nothing."""


@dataclass(frozen=True, slots=True)
class Lens:
    """What an address restricts lists to; empty values restrict nothing.

    ``confirmed_only`` leaves what an A/B rerun confirmed.
    """

    branch: str = ""
    machine: str = ""
    axes: tuple[tuple[str, str], ...] = ()
    window: str = DEFAULT_WINDOW
    confirmed_only: bool = False

    @property
    def query(self) -> dict[str, str]:
        """The lens as query of an address, without what is the default."""
        values = {BRANCH_KEY: self.branch, MACHINE_KEY: self.machine}
        values |= {f"{AXIS_PREFIX}{name}": value for name, value in self.axes}
        values[SINCE_KEY] = "" if self.window == DEFAULT_WINDOW else self.window
        values[CONFIRMED_KEY] = "1" if self.confirmed_only else ""
        return {key: value for key, value in values.items() if value}

    @property
    def restricts_places(self) -> bool:
        return bool(self.machine or self.axes)

    @property
    def window_label(self) -> str:
        return WINDOW_LABELS[self.window]

    def find_start(self, until: datetime) -> datetime | None:
        """The start of the time window that ends at ``until``; None for all time."""
        days = WINDOW_DAYS[self.window]
        return None if days is None else until - timedelta(days=days)

    def query_without(self, key: str) -> dict[str, str]:
        """The query of the same lens without one restriction."""
        return {name: value for name, value in self.query.items() if name != key}


def parse_lens(arguments: Mapping[str, str]) -> Lens:
    """Read the lens of an address; a value that makes no sense is left out."""
    kept = {key: value for key, value in arguments.items() if 0 < len(value) <= MAX_VALUE_LENGTH}
    axes = [
        (key.removeprefix(AXIS_PREFIX), value)
        for key, value in kept.items()
        if key.startswith(AXIS_PREFIX) and len(key) <= MAX_VALUE_LENGTH
    ]
    window = kept.get(SINCE_KEY, DEFAULT_WINDOW)
    return Lens(
        branch=kept.get(BRANCH_KEY, ""),
        machine=kept.get(MACHINE_KEY, ""),
        axes=tuple(sorted(axes)),
        window=window if window in WINDOW_DAYS else DEFAULT_WINDOW,
        confirmed_only=kept.get(CONFIRMED_KEY) == "1",
    )


def current_lens() -> Lens:
    """Return the lens of the current address."""
    return parse_lens(request.args)


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The time that the lens leaves, with its end, as a headline names it: ``in the last 7 days``."""

    since: datetime | None
    until: datetime
    text: str


def build_time_window(lens: Lens, now: datetime, last_result_at: datetime | None) -> TimeWindow:
    """Build the window of a lens; where results ended, it ends with the last of them."""
    if WINDOW_DAYS[lens.window] is None:
        return TimeWindow(None, now, "so far")
    if last_result_at is None or now - last_result_at <= STALE_AFTER:
        return TimeWindow(lens.find_start(now), now, f"in the last {lens.window_label}")
    text = f"in the {lens.window_label} before {format_day(last_result_at)}, the last result"
    return TimeWindow(lens.find_start(last_result_at), last_result_at, text)


@dataclass(frozen=True, slots=True)
class LensOption:
    """One value to choose, with how many series (of a branch: commits) it leaves."""

    value: str
    label: str
    count: int | None = None


@dataclass(frozen=True, slots=True)
class LensChoice:
    """What can be chosen of one kind; ``value`` is what is."""

    key: str
    label: str
    value: str
    options: tuple[LensOption, ...]

    @property
    def value_label(self) -> str:
        return next((option.label for option in self.options if option.value == self.value), self.value)


@dataclass(frozen=True, slots=True)
class LensView:
    """The lens with its choices and the filter of series it stands for."""

    lens: Lens
    choices: tuple[LensChoice, ...]
    places: PlaceFilter

    @property
    def window_choice(self) -> LensChoice:
        options = tuple(LensOption(window, label) for window, label in WINDOW_LABELS.items())
        return LensChoice(SINCE_KEY, "since", self.lens.window, options)

    @property
    def chosen(self) -> Sequence[LensChoice]:
        """The choices that restrict something, which the page shows as chips to close."""
        return [choice for choice in self.choices if choice.value]


def load_lens(tx: Session, project: Project) -> LensView:
    """Load the choices of a project for the lens of the current address.

    A kind with one value leaves nothing to choose and is left out, unless the address names another value.
    """
    lens, places = current_lens(), load_measured_places(tx, project.slug)
    choices = [
        _branch_choice(lens, count_commits_by_branch(tx, project.id)),
        _machine_choice(lens, places),
        *_axis_choices(lens, places),
    ]
    useful = tuple(choice for choice in choices if choice.value or len(choice.options) > 1)
    selected = [place for place in places if _place_fits(place, lens)]
    return LensView(lens, useful, place_filter_of(selected) if lens.restricts_places else EVERYWHERE)


def _branch_choice(lens: Lens, commits: Mapping[str, int]) -> LensChoice:
    options = tuple(LensOption(branch, branch, count) for branch, count in commits.items())
    return LensChoice(BRANCH_KEY, "branch", lens.branch, options)


def _machine_choice(lens: Lens, places: Sequence[MeasuredPlace]) -> LensChoice:
    counts: Counter[tuple[str, str]] = Counter()
    for place in places:
        counts[machine_slug(place.machine), place.machine.label] += place.series_count
    options = tuple(LensOption(slug, label, count) for (slug, label), count in counts.most_common())
    return LensChoice(MACHINE_KEY, "machine", lens.machine, options)


def _axis_choices(lens: Lens, places: Sequence[MeasuredPlace]) -> list[LensChoice]:
    """One choice for each axis of the variants."""
    counts: dict[str, Counter[str]] = {name: Counter() for name, _ in lens.axes}
    for place in places:
        for name, value in place.variant.values:
            counts.setdefault(name, Counter())[str(value)] += place.series_count
    chosen = dict(lens.axes)
    return [
        LensChoice(
            f"{AXIS_PREFIX}{name}",
            name,
            chosen.get(name, ""),
            tuple(
                LensOption(value, short_axis_text(name, value), count)
                for value, count in sorted(values.items())
            ),
        )
        for name, values in sorted(counts.items())
    ]


def _place_fits(place: MeasuredPlace, lens: Lens) -> bool:
    values = {name: str(value) for name, value in place.variant.values}
    return lens.machine in ("", machine_slug(place.machine)) and all(
        values.get(name) == value for name, value in lens.axes
    )
