"""Find what another threshold would flag in the newest part of stored histories; nothing is written."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
from sqlalchemy.orm import Session as Transaction

from perfci.history.load_series_points import load_series_points
from perfci.model import ChangePoint, Commit, MetricClass, PerfciError, Series
from perfci.store.queries.judging_inputs import load_judged_series_ids
from perfci.store.queries.series_commits_machines import load_commits_by_id
from perfci.verdicts.comparison_rule import Rule
from perfci.verdicts.history.change_points_and_jumps import LevelHistory, find_change_points_in_levels
from perfci.verdicts.history.step_evidence import MAX_SIDE_POINTS
from perfci.verdicts.judging_policy import Policy, PolicyOverride

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SAME_CHANGE_POINTS = 8
"""Measured commits that two thresholds may place one change apart; within as many a change recovers."""

Changes = dict[tuple[Series, str], ChangePoint]
"""Change points by series and commit."""

MAX_SERIES = 1000
"""Series that are judged again, those measured last: some seconds."""


@dataclass(frozen=True, slots=True)
class ThresholdDryRun:
    """What is flagged since a time by the threshold in force and by another one.

    ``series_count`` series have a threshold that would change, ``left_out`` more were not judged again.
    """

    since: datetime
    until: datetime
    series_count: int
    left_out: int
    kept: tuple[ChangePoint, ...]
    added: tuple[ChangePoint, ...]
    removed: tuple[ChangePoint, ...]
    commits: Mapping[str, Commit]


@dataclass(frozen=True, slots=True)
class TriedSettings:
    """Settings of ``[judge]`` to try; with a ``metric_class`` the bar is that of its metrics alone."""

    bar: float
    strict: bool
    min_pairs: int
    max_pairs: int
    metric_class: MetricClass | None = None

    @classmethod
    def in_force(cls, policy: Policy) -> TriedSettings:
        """The settings in force."""
        rule = policy.default
        return cls(rule.bar, rule.strict, rule.looks[0], rule.max_pairs)


def build_changed_policy(tx: Transaction, project: str, policy: Policy, settings: TriedSettings) -> Policy:
    """Build the policy in force with other settings; a bar of one class becomes its last table."""
    looks = tuple(range(settings.min_pairs, max(settings.min_pairs, Rule().looks[-1]) + 1))
    default = replace(policy.default, strict=settings.strict, max_pairs=settings.max_pairs, looks=looks)
    if settings.metric_class is None:
        return Policy(replace(default, bar=settings.bar), policy.overrides)
    names = {
        series.metric.name
        for series in load_judged_series_ids(tx, project)
        if policy.metric_class_of(series) is settings.metric_class
    }
    if not names:
        raise PerfciError(f"{project} has no judged series of the class {settings.metric_class.value}.")
    match = f" · ({'|'.join(map(re.escape, sorted(names)))})$"
    return Policy(default, (*policy.overrides, PolicyOverride(match, bar=settings.bar)))


def try_threshold(
    tx: Transaction, project: str, policy: Policy, changed: Policy, days: int
) -> ThresholdDryRun | None:
    """Judge the last days of every history again by another policy; None without a measured commit.

    Both policies see the same points: those of the last days, and as many before them as a change is
    measured from. Values that repeat exactly are judged by any change, whatever the threshold.
    """
    series_ids = {
        row_id: series
        for series, row_id in load_judged_series_ids(tx, project).items()
        if policy.is_judged(series)
        and policy.rule_for(series).exact_bar is None
        and policy.rule_for(series) != changed.rule_for(series)
    }
    histories, commits = _load_histories(tx, series_ids)
    if not histories:
        return None
    until = max(_get_date(commits, levels[-1][0]) for levels in histories.values())
    since = until - timedelta(days=days)
    windows = {
        series: window
        for series, levels in histories.items()
        if (window := _cut_window(levels, commits, since))
    }
    newest = sorted(windows, key=lambda series: _get_date(commits, windows[series][-1][0]), reverse=True)
    judged = {series: windows[series] for series in newest[:MAX_SERIES]}
    now, then = (_find_changes(judged, each, commits, since) for each in (policy, changed))
    now = match_moved_changes(now, then, judged)
    return ThresholdDryRun(
        since,
        until,
        len(judged),
        len(windows) - len(judged),
        kept=tuple(then[key] for key in then if key in now),
        added=tuple(then[key] for key in then if key not in now),
        removed=tuple(now[key] for key in now if key not in then),
        commits={change.commit: commits[change.commit] for change in (*now.values(), *then.values())},
    )


def _load_histories(
    tx: Transaction, series_ids: Mapping[int, Series]
) -> tuple[dict[Series, LevelHistory], dict[str, Commit]]:
    """Load the measured levels of series and the commits of these, by sha."""
    points = load_series_points(tx, series_ids)
    measured = {row_id: each.levels[~np.isnan(each.levels["level"])] for row_id, each in points.items()}
    ids = {int(commit_id) for levels in measured.values() for commit_id in np.unique(levels["commit_id"])}
    commits = load_commits_by_id(tx, ids=ids)
    histories: dict[Series, LevelHistory] = {
        series_ids[row_id]: [
            (commits[commit_id].sha, level)
            for commit_id, level in zip(levels["commit_id"].tolist(), levels["level"].tolist(), strict=True)
        ]
        for row_id, levels in measured.items()
        if len(levels)
    }
    return histories, {commit.sha: commit for commit in commits.values()}


def _cut_window(levels: LevelHistory, commits: Mapping[str, Commit], since: datetime) -> LevelHistory:
    """The points since a time with those before that a change is measured from; empty without any since."""
    first = next((place for place, (sha, _) in enumerate(levels) if _get_date(commits, sha) >= since), None)
    return [] if first is None else levels[max(0, first - MAX_SIDE_POINTS) :]


def match_moved_changes(now: Changes, then: Changes, histories: Mapping[Series, LevelHistory]) -> Changes:
    """Key what is flagged now by the commit of the same change under another threshold.

    A change is the same where the other threshold only places it some measured commits earlier or later;
    each of its changes is matched once.
    """
    matched: Changes = {}
    for (series, sha), change in now.items():
        key = (series, sha)
        if key not in then:
            places = {commit: place for place, (commit, _) in enumerate(histories[series])}
            key = next(
                (
                    (item, commit)
                    for (item, commit), other in then.items()
                    if item == series
                    and (item, commit) not in now
                    and (item, commit) not in matched
                    and abs(places[commit] - places[sha]) <= SAME_CHANGE_POINTS
                    and other.relative_change * change.relative_change > 0
                ),
                key,
            )
        matched[key] = change
    return matched


def _get_date(commits: Mapping[str, Commit], sha: str) -> datetime:
    """The date of a commit; one without a date was made before all others."""
    return commits[sha].committed_at or EPOCH


def _find_changes(
    histories: Mapping[Series, LevelHistory],
    policy: Policy,
    commits: Mapping[str, Commit],
    since: datetime,
) -> Changes:
    """The changes since a time by series and commit, the largest first."""
    changes: Collection[ChangePoint] = [
        change
        for moves in find_change_points_in_levels(histories, rules=policy.rule_for).values()
        for change in moves
        if _get_date(commits, change.commit) >= since
    ]
    largest_first = sorted(changes, key=lambda change: -abs(change.log_cost_change))
    return {(change.series, change.commit): change for change in largest_first}
