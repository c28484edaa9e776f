"""Load what the series of one benchmark and metric came to at one commit, and at what it is compared with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from perfci.history.comparisons.levels_of_runs import load_levels_of_runs
from perfci.history.load_series_points import load_noise_between_runs
from perfci.model import ChangePoint, Commit, Series, Verdict
from perfci.report.comparisons.comparison_rows import NOT_MEASURED, SideLevel
from perfci.store.projects import Project
from perfci.store.queries.comparisons.results_of_runs import (
    find_newest_measured_commit,
    load_run_ids_at_place,
)
from perfci.store.transactions import CHUNK
from perfci.store.verdicts_and_change_points import load_change_points, load_verdict_records
from perfci_web.comparisons.sides import Side, resolve_commit_side

NEWEST = "newest measured commit"


@dataclass(frozen=True, slots=True)
class SideLevels:
    """A commit with the level of each series there."""

    side: Side
    levels: Mapping[Series, SideLevel]

    def level(self, series: Series | None) -> SideLevel:
        return NOT_MEASURED if series is None else self.levels.get(series, NOT_MEASURED)


@dataclass(frozen=True, slots=True)
class LoadedMatrix:
    """The levels at the commit and at the other one, None without; verdicts and changes between the two.

    ``noise`` is that between runs of each series, where enough of them tell.
    """

    at: SideLevels
    base: SideLevels | None
    noise: Mapping[Series, float]
    verdicts: Mapping[Series, Verdict] = field(default_factory=dict)
    changes: Mapping[Series, ChangePoint] = field(default_factory=dict)


def load_matrix(
    tx: Session, project: Project, series: Mapping[int, Series], at: str, base: str
) -> LoadedMatrix | None:
    """Load series at a commit (empty: the newest that measured any of them) and at a base (empty: none).

    None where no commit of the history measured one.
    """
    if at:
        side = resolve_commit_side(tx, project, at)
    else:
        newest = find_newest_measured_commit(tx, project.id, series_ids=sorted(series)[-CHUNK:])
        if newest is None:
            return None
        side = Side("", NEWEST, newest)
    head = SideLevels(side, _load_levels(tx, project, side.commit, series))
    if not base:
        return LoadedMatrix(head, None, _load_noise(tx, series))
    base_side = resolve_commit_side(tx, project, base)
    commits = base_side.commit, side.commit
    return LoadedMatrix(
        head,
        SideLevels(base_side, _load_levels(tx, project, base_side.commit, series)),
        _load_noise(tx, series),
        _load_verdicts(tx, project, *commits, series.values()),
        {
            change.series: change
            for change in load_change_points(
                tx, project.slug, last_good=commits[0].sha, commit=commits[1].sha
            )
        },
    )


def _load_levels(
    tx: Session, project: Project, commit: Commit, series: Mapping[int, Series]
) -> dict[Series, SideLevel]:
    runs = load_run_ids_at_place(tx, project.id, commit.sha)
    return {
        series[row_id]: SideLevel(level.level, level.status, level.reason)
        for row_id, level in load_levels_of_runs(tx, runs, series).items()
    }


def _load_noise(tx: Session, series: Mapping[int, Series]) -> dict[Series, float]:
    return {series[row_id]: noise for row_id, noise in load_noise_between_runs(tx, series).items()}


def _load_verdicts(
    tx: Session, project: Project, base: Commit, head: Commit, series: Collection[Series]
) -> dict[Series, Verdict]:
    chosen = set(series)
    records = load_verdict_records(tx, project.slug, base=base.sha, head=head.sha)
    return {record.verdict.series: record.verdict for record in records if record.verdict.series in chosen}
