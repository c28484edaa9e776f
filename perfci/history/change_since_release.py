"""By how much a project got better or worse since a release: the geometric mean of each metric class."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy.orm import Session as Transaction

from perfci.history.comparisons.levels_of_runs import load_levels_of_runs
from perfci.model import CPU_METRIC_PREFIX, Commit, Interval, MetricClass, Series
from perfci.stats.mean_of_runs import MeanShift, RunMeans, estimate_mean_shift
from perfci.store.derived_values import load_or_derive
from perfci.store.projects import Project
from perfci.store.queries.comparisons.release_commits import (
    NearRun,
    find_commit_before,
    find_tagged_commit,
    load_last_runs,
)
from perfci.store.queries.comparisons.results_of_runs import find_newest_measured_commit
from perfci.store.queries.series_search import load_listed_series
from perfci.store.series_archive import load_archived_by_hand_ids
from perfci.verdicts.judging_policy import Policy

RUNS_PER_SIDE = 5
"""The last runs of each place and suite that a side is the mean of."""

WITHOUT_RELEASE = timedelta(days=30)
"""How long before the newest commit a project without a release is compared with."""

UNCHANGED_BELOW = 0.01
"""A mean whose whole interval is nearer to none than this did not move."""


@dataclass(frozen=True, slots=True)
class ClassChange:
    """The geometric mean of cost now over then (above 1 is worse) of the series of one metric class.

    It covers the ``series`` that all runs of both sides measured; ``left_out`` lack one of them.
    """

    metric_class: MetricClass
    ratio: float
    interval: Interval | None
    series: int
    left_out: int

    @property
    def outcome(self) -> str:
        """What the interval says: worse, better, unchanged, or inconclusive."""
        if self.interval is None:
            return "inconclusive"
        lo, hi = self.interval.lo, self.interval.hi
        if lo > 1 - UNCHANGED_BELOW and hi < 1 + UNCHANGED_BELOW:
            return "unchanged"
        if lo > 1 or hi < 1:
            return "worse" if lo > 1 else "better"
        return "inconclusive"


@dataclass(frozen=True, slots=True)
class ChangeSinceRelease:
    """What each metric class did since a commit; ``name`` is the tag of the release, empty without one."""

    name: str
    commit: Commit
    classes: tuple[ClassChange, ...]


def load_change_since_release(
    tx: Transaction, project: Project, policy: Policy, tag_pattern: str
) -> ChangeSinceRelease | None:
    """Load what changed since the last release, without one since a month ago; None where nothing was
    measured on both sides. The classes of metrics are those of the policy at the first reading."""

    def derive() -> ChangeSinceRelease | None:
        release = find_tagged_commit(tx, project.id, tag_pattern)
        start = release or ("", find_commit_before(tx, project.id, WITHOUT_RELEASE))
        if start[1] is None:
            return None
        classes = _load_class_changes(tx, project, policy, start[1])
        return ChangeSinceRelease(start[0], start[1], tuple(classes)) if classes else None

    return load_or_derive(tx, project.slug, f"change since {tag_pattern}", derive)


def load_change_since_commit(
    tx: Transaction, project: Project, policy: Policy, name: str, base: Commit
) -> ChangeSinceRelease | None:
    """Load what changed since a commit that somebody names; None where nothing was measured on both sides.

    A commit of another branch than the newest one is compared with the end of that one's branch.
    """

    def derive() -> ChangeSinceRelease | None:
        newest = find_newest_measured_commit(tx, project.id)
        end = newest if newest is not None and newest.branch != base.branch else None
        classes = _load_class_changes(tx, project, policy, base, end)
        return ChangeSinceRelease(name, base, tuple(classes)) if classes else None

    return load_or_derive(tx, project.slug, f"change since {name} {base.sha}", derive)


def _load_class_changes(
    tx: Transaction, project: Project, policy: Policy, base: Commit, end: Commit | None = None
) -> list[ClassChange]:
    """Compare the last runs up to ``base`` with those after it, or with those up to ``end``."""
    then = load_last_runs(tx, project.id, base, RUNS_PER_SIDE)
    if end is None:
        now = load_last_runs(tx, project.id, base, RUNS_PER_SIDE, after=True)
    else:
        now = load_last_runs(tx, project.id, end, RUNS_PER_SIDE)
    sides = (then, now)
    placed = [_group_by_place(runs) for runs in sides]
    places = placed[0].keys() & placed[1].keys()
    run_ids = [run for side in placed for place in places for run in side[place]]
    levels = {run_id: _load_log_levels(tx, run_id) for run_id in run_ids}
    judged = _select_judged(tx, project.slug, policy)
    means: dict[MetricClass, list[RunMeans]] = defaultdict(list)
    left_out: dict[MetricClass, int] = defaultdict(int)
    for place in sorted(places):
        before, after = ([levels[run] for run in side[place]] for side in placed)
        for metric_class, mine in _by_class(judged, before, after, policy).items():
            complete = [row_id for row_id in mine if all(row_id in run for run in (*before, *after))]
            left_out[metric_class] += len(mine) - len(complete)
            if complete:
                signs = {row_id: judged[row_id].metric.cost_sign for row_id in complete}
                sides_of_means = [[_mean(run, signs) for run in side] for side in (before, after)]
                means[metric_class].append(RunMeans(place[0], len(complete), *sides_of_means))
    return [
        _build_change(metric_class, shift, sum(group.series for group in groups), left_out[metric_class])
        for metric_class, groups in sorted(means.items())
        if (shift := estimate_mean_shift(groups)) is not None
    ]


def _load_log_levels(tx: Transaction, run_id: int) -> dict[int, float]:
    return {
        series_id: math.log(each.level)
        for series_id, each in load_levels_of_runs(tx, [run_id]).items()
        if each.level is not None and each.level > 0
    }


def _group_by_place(runs: Sequence[NearRun]) -> dict[tuple[int, int, str], list[int]]:
    places: dict[tuple[int, int, str], list[int]] = defaultdict(list)
    for run in runs:
        places[run.machine_id, run.variant_id, run.suite].append(run.id)
    return places


def _select_judged(tx: Transaction, project: str, policy: Policy) -> dict[int, Series]:
    """The series that count: judged, not archived ones, of two clocks of the same processes the CPU's."""
    archived = load_archived_by_hand_ids(tx, project)
    listed = {
        stored.id: stored.series
        for stored in load_listed_series(tx, project)
        if stored.id not in archived
        and not stored.is_informational
        and not stored.never_measured
        and policy.is_judged(stored.series)
    }
    with_cpu = {
        (series.key_without_metric, series.metric.name.removeprefix(CPU_METRIC_PREFIX))
        for series in listed.values()
        if series.metric.name.startswith(CPU_METRIC_PREFIX)
    }
    return {
        row_id: series
        for row_id, series in listed.items()
        if (series.key_without_metric, series.metric.name) not in with_cpu
    }


def _by_class(
    judged: Mapping[int, Series],
    before: Sequence[Mapping[int, float]],
    after: Sequence[Mapping[int, float]],
    policy: Policy,
) -> dict[MetricClass, list[int]]:
    """The series that some run of either side measured, by metric class."""
    sides = [{row_id for run in side for row_id in run} for side in (before, after)]
    classes: dict[MetricClass, list[int]] = defaultdict(list)
    for row_id in sorted(sides[0] & sides[1] & judged.keys()):
        classes[policy.metric_class_of(judged[row_id])].append(row_id)
    return classes


def _mean(run: Mapping[int, float], signs: Mapping[int, float]) -> float:
    """The mean log cost of a run."""
    return math.fsum(sign * run[row_id] for row_id, sign in signs.items()) / len(signs)


def _build_change(metric_class: MetricClass, shift: MeanShift, series: int, left_out: int) -> ClassChange:
    interval = None
    if shift.lo is not None and shift.hi is not None:
        interval = Interval(math.exp(shift.lo), math.exp(shift.hi))
    return ClassChange(metric_class, math.exp(shift.log_ratio), interval, series, left_out)
