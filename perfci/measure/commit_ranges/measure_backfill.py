"""Measure commits of a range that have no results: the coarse picture first, each wave in rounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from perfci.config import Config
from perfci.history.series_histories import update_change_points
from perfci.measure.cells_within_time_budget import TimeBudget
from perfci.measure.commit_ranges.measure_commit_rounds import measure_commit_rounds
from perfci.measure.measure_and_store_session import MeasurementSession, SessionProgress, SessionScope
from perfci.measure.open_measurement_session import open_measurement_session
from perfci.model import Commit, PerfciError, Status
from perfci.project_policies import build_policy
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.store import Store
from perfci.store.queries.measured_series import load_series_ids_of_session

FIRST_WAVE = 8
"""Commits of the first wave. Each further one has as many as all before it, so half the gaps between them
are closed by each.
"""


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """Which commits of a range are measured: ``waves`` from coarse to fine.

    ``commits_with_results`` is how many were left out because they have some.
    """

    commits: Sequence[Commit]
    commits_with_results: int
    waves: Sequence[Sequence[Commit]]

    @property
    def chosen(self) -> list[Commit]:
        """The commits of all waves."""
        return [commit for wave in self.waves for commit in wave]


OnWave = Callable[[MeasurementSession, int], None]
"""Called after each wave with how many are measured."""


def plan_backfill(
    commits: Sequence[Commit],
    measured: Collection[str],
    *,
    stride: int = 1,
    most: int | None = None,
) -> BackfillPlan:
    """Choose every ``stride``-th of the commits, counted back from the newest, that has no results.

    The ends come first, then the middles of what lies between, and so on, until ``most`` are chosen.
    """
    wanted = list(commits)[::-1][::stride][::-1]
    open_commits = {commit.sha for commit in wanted if commit.sha not in measured}
    ordered = [wanted[i] for i in order_coarse_first(len(wanted)) if wanted[i].sha in open_commits][:most]
    waves: list[Sequence[Commit]] = []
    done, size = 0, FIRST_WAVE
    while done < len(ordered):
        waves.append(ordered[done : done + size])
        done += size
        size = done
    return BackfillPlan(commits, len(wanted) - len(open_commits), waves)


def order_coarse_first(count: int) -> list[int]:
    """Order 0 to ``count`` - 1: the ends, the middle, then the middle of each gap, the widest gaps first."""
    if count < 2:
        return list(range(count))
    ordered = [count - 1, 0]
    gaps = deque([(0, count - 1)])
    while gaps:
        first, last = gaps.popleft()
        if last - first < 2:
            continue
        middle = (first + last) // 2
        ordered.append(middle)
        gaps += [(first, middle), (middle, last)]
    return ordered


def measure_backfill(
    store: Store,
    runner: MeasurementRunner,
    config: Config,
    scope: SessionScope,
    plan: BackfillPlan,
    progress: SessionProgress,
    on_wave: OnWave,
    *,
    identity: str,
) -> MeasurementSession:
    """Measure the waves of a plan into the history; a resumed session measures only what it lacks."""
    rounds = config.settings.run.rounds
    session = open_measurement_session(
        store,
        runner,
        config.project,
        scope,
        "history",
        rounds=rounds,
        identity=identity,
        on_process=progress.report_process,
        on_message=progress.report,
    )
    progress.start_stage("rounds", len(plan.chosen) * len(scope.cells) * rounds)
    policy = build_policy(config.settings)
    for number, wave in enumerate(plan.waves):
        of_wave = replace(scope, commits={commit.sha: commit for commit in wave})
        measure_commit_rounds(session, of_wave, rounds, progress, TimeBudget())
        with store.begin() as tx:
            update_change_points(tx, config.project, load_series_ids_of_session(tx, session.uid), policy)
        on_wave(session, number + 1)
    return session


def count_affordable_commits(cells: int, rounds: int, max_processes: int | None) -> int | None:
    """How many commits fit into a number of processes; None without one.

    Raises:
        PerfciError: Not even one commit fits.
    """
    if max_processes is None:
        return None
    each = cells * rounds
    if max_processes < each:
        raise PerfciError(
            f"One commit takes {each} processes, and at most {max_processes} were ordered: allow more, or "
            "choose fewer benchmarks."
        )
    return max_processes // each


def list_unmeasurable_commits(session: MeasurementSession, commits: Iterable[Commit]) -> dict[str, str]:
    """Why commits gave not a single value, by sha."""
    reasons = {}
    for commit in commits:
        rows = session.readings.get_commit_processes(commit.sha)
        if rows and not any(process.status is Status.OK for _, process in rows):
            process = rows[0][1]
            reasons[commit.sha] = process.reason or process.status.value
    return reasons
