"""Load one result of a series, with the one before it."""

from __future__ import annotations

from sqlalchemy.orm import Session

from perfci.model import Point
from perfci.store.queries.measured_samples import load_points_at_commits
from perfci.store.queries.series_commits_machines import load_commit_ids_by_sha
from perfci_web.points.view_model import PointView, build_point_view
from perfci_web.series.load_series import LoadedSeries


def load_point_view(tx: Session, loaded: LoadedSeries, sha: str) -> PointView | None:
    """Load the view of the result at a commit, whose sha may be short; None where there is none."""
    trend = loaded.trend
    place = trend.find_number(sha)
    if place is None:
        return None
    previous = trend.find_measured_before(place)
    shas = [trend.columns.commits[place].sha, *([previous.commit.sha] if previous else [])]
    points = _load_points(tx, loaded, shas)
    return build_point_view(trend, points, shas[0], loaded.incident_numbers)


def _load_points(tx: Session, loaded: LoadedSeries, shas: list[str]) -> list[Point]:
    commit_ids = load_commit_ids_by_sha(tx, loaded.project.slug, shas)
    wanted = {loaded.record.id: set(commit_ids.values())}
    return [point for _, _, point in load_points_at_commits(tx, wanted)]
