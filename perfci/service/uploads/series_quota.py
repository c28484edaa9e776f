"""Bound how many series a project gets in a day, and how many one pull request brings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from perfci.model import PerfciError
from perfci.store.new_series_counts import add_to_new_series_count

PER_PULL_REQUEST = (
    "This pull request would bring {} new series to {}, more than the {} of [server] "
    "new_series_per_pull_request: is a name or a parameter different in every run? What it sent before, "
    "and further results of these series, are stored."
)
PER_DAY = (
    "{1} would get {0} new series today, more than the {2} of [server] new_series_per_day: is a name or a "
    "parameter different in every run? Results of known series are stored; try again tomorrow, or ask the "
    "operator of this server for more."
)


class SeriesQuotaExceeded(PerfciError):
    """More new series than a project may get, or a pull request may bring."""


@dataclass(frozen=True, slots=True)
class SeriesQuota:
    """The limits of a server, and the pull request that an upload belongs to, if it does."""

    per_day: int = 20_000
    per_pull_request: int = 5_000
    pull_request: str = ""

    def charge_new_series(self, tx: Session, project_id: int, slug: str, new: int, at: datetime) -> None:
        """Count new series of a project; raise where they are too many.

        Those of pull requests are counted apart, so that they leave the main branch its own.
        """
        day = f"{at:%Y-%m-%d}"
        if self.pull_request:
            day = f"pull requests {day}"
            total = add_to_new_series_count(tx, project_id, f"pull request {self.pull_request}", new, at)
            if total > self.per_pull_request:
                raise SeriesQuotaExceeded(PER_PULL_REQUEST.format(total, slug, self.per_pull_request))
        total = add_to_new_series_count(tx, project_id, day, new, at)
        if total > self.per_day:
            raise SeriesQuotaExceeded(PER_DAY.format(total, slug, self.per_day))
