"""The two sides of a comparison of separate runs: a head's uploads, and recent runs of the main branch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.model import Commit, Environment, NamedValues
from perfci.store.queries.comparisons.pull_request_uploads import RunResult
from perfci.store.queries.series_commits_machines import load_commits_by_id, load_environments_by_id
from perfci.verdicts.compare.separate_runs import RecordedRun, UploadedResult


@dataclass(frozen=True, slots=True)
class RunJoiner:
    """Joins results into runs; commits and environments are by id."""

    commits: Mapping[int, Commit]
    environments: Mapping[int, Environment]

    @classmethod
    def load(cls, tx: Transaction, results: Collection[RunResult]) -> RunJoiner:
        """Read the commits and environments of some results."""
        return cls(
            load_commits_by_id(tx, ids={result.commit_id for result in results}),
            load_environments_by_id(tx, {result.environment_id for result in results}),
        )

    def join_results(self, results: Iterable[RunResult]) -> list[RecordedRun]:
        """Join the results of one series into runs, in the order given.

        All uploads of one job of a CI system, or of one session elsewhere, at one commit in one environment
        are one run: what that hour did to the machine is in each of them.
        """
        groups: dict[object, list[RunResult]] = {}
        for result in results:
            key = result.commit_id, result.environment_id, _get_job(result.origin) or result.session
            groups.setdefault(key, []).append(result)
        return [
            RecordedRun(
                self.commits[group[0].commit_id].sha,
                group[0].started_at,
                self.environments[group[0].environment_id],
                tuple(_build_upload(result) for result in group),
            )
            for group in groups.values()
        ]


def count_runs_and_days(results: Collection[RunResult]) -> tuple[int, int]:
    """Count the runs that results are of, and the days from the first to the last."""
    if not results:
        return 0, 0
    runs = {(result.commit_id, _get_job(result.origin) or result.session) for result in results}
    days = [result.started_at.date() for result in results]
    return len(runs), (max(days) - min(days)).days + 1


def list_result_ids(runs: Sequence[RecordedRun]) -> tuple[int, ...]:
    """List the ids of all results of some runs."""
    return tuple(result.id for run in runs for result in run.results)


def _get_job(origin: NamedValues) -> tuple[str, ...] | None:
    fields = dict(origin)
    if not fields.get("run_id"):
        return None
    return fields["run_id"], fields.get("attempt", ""), fields.get("job", "")


def _build_upload(result: RunResult) -> UploadedResult:
    return UploadedResult(result.id, result.status, result.level, result.repeats_exactly, result.reason)
