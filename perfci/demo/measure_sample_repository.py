"""Demo run: measure the sample repository commit by commit and read back the results."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from perfci.config import Config, find_lock_path, load_config
from perfci.demo.machine_noise import detectable_effect_from_pair_noise, noise_floor_from_pair_noise
from perfci.demo.sample_repository import make_sample_repository
from perfci.history.judged_processes import group_judged_processes
from perfci.measure.commit_ranges.measure_screen_confirm_range import measure_screen_confirm_range
from perfci.measure.compare_commits import measure_commit_comparison
from perfci.measure.measure_and_store_session import SessionProgress
from perfci.measure.open_measurement_session import create_suite_runner, prepare_session_scope
from perfci.model import Commit, Process, Series, Verdict
from perfci.runner.git_repository import GitRepository, ensure_perfci_folder
from perfci.runner.locks import machine_lock
from perfci.service.incidents.reconcile_incidents import evaluate_and_reconcile
from perfci.stats.noise_floor import MIN_AA_RUNS
from perfci.store import Store, open_store, upgrade_if_older
from perfci.store.queries.measured_samples import load_session_processes
from perfci.store.queries.runs_and_sessions import load_sessions
from perfci.store.verdicts_and_change_points import load_verdict_records
from perfci.verdicts.compare.confirmation_candidates import compute_pair_noise_by_series

DEMO_ROUNDS = 5
"""Rounds of the demo's session."""

AA_RUNS, AA_BUDGET_S = MIN_AA_RUNS, 60.0
"""How often the newest commit is compared with itself, and how long each time; it gives noise floors."""


@dataclass(frozen=True, slots=True)
class DemoResults:
    """Current verdicts of the demo, and the noise of the machine for each series."""

    commits: Mapping[str, Commit]
    verdicts: Sequence[Verdict]
    noise_floor: Mapping[Series, float]
    minimum_detectable_effect: Mapping[Series, float]


def prepare_sample_repository(folder: Path, *, fresh: bool) -> GitRepository:
    """Make the sample repository below ``folder/.perfci``, or reuse an existing one."""
    tree = ensure_perfci_folder(folder) / "demo" / "tinylm"
    if fresh or not (tree / ".git").is_dir():
        shutil.rmtree(tree, ignore_errors=True)
        partial = tree.with_name("tinylm.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.parent.mkdir(parents=True, exist_ok=True)
        make_sample_repository(partial)
        partial.rename(tree)  # in one step: an interrupted demo leaves no half repository
    return GitRepository(tree)


def load_sample_config(repository: GitRepository) -> Config:
    """The sample's own configuration; of the user's variables only that of the machine lock counts."""
    config = load_config(repository.root, {}, slug=repository.origin_slug)
    return config.model_copy(update={"lock_path": find_lock_path()})


def measure_sample_repository(repository: GitRepository, config: Config, watcher: SessionProgress) -> bool:
    """Measure what is not yet measured and open incidents; False if all of it was measured already."""
    upgrade_if_older(config.database_url)
    with closing(open_store(config.database_url, create=True)) as store:
        with store.read() as tx:
            sessions = load_sessions(tx, config.project)
        finished = Counter(session.kind for session in sessions if session.state == "finished")
        if not finished["history"]:
            _measure_history(store, repository, config, watcher)
        missing_aa_runs = AA_RUNS - finished["aa"]
        if missing_aa_runs > 0:
            _measure_equal_commits(store, repository, config, missing_aa_runs, watcher)
        evaluate_and_reconcile(store, config)
    return not finished["history"] or missing_aa_runs > 0


def _measure_history(
    store: Store, repository: GitRepository, config: Config, watcher: SessionProgress
) -> None:
    commits = repository.list_first_parent_commits("HEAD")
    with create_suite_runner(repository, config, None, smoke=True) as runner:
        subject = prepare_session_scope(runner, commits, "", watcher.report)
        with machine_lock(config.lock_path, owner="perfci demo", on_wait=watcher.report):
            measure_screen_confirm_range(store, runner, config, subject, DEMO_ROUNDS, watcher)


def _measure_equal_commits(
    store: Store, repository: GitRepository, config: Config, times: int, watcher: SessionProgress
) -> None:
    """Compare the newest commit with itself, as ``perfci compare HEAD HEAD`` does."""
    head = repository.list_first_parent_commits("HEAD")[-1]
    with create_suite_runner(repository, config, None, smoke=True) as runner:
        scope = prepare_session_scope(runner, [head], "", watcher.report)
        with machine_lock(config.lock_path, owner="perfci demo", on_wait=watcher.report):
            for _ in range(times):
                measure_commit_comparison(
                    store, runner, config, scope, head, head, watcher, budget_s=AA_BUDGET_S
                )


def load_demo_results(repository: GitRepository, config: Config) -> DemoResults:
    """Load the stored results; all that is shown comes from the store."""
    commits = {commit.sha: commit for commit in repository.list_first_parent_commits("HEAD")}
    line = list(itertools.pairwise(commits))
    with closing(open_store(config.database_url, create=False)) as store:
        measured = _load_judged_processes(store, config.project)
        with store.read() as tx:
            verdicts = [record.verdict for record in load_verdict_records(tx, config.project)]
    pair_noise = compute_pair_noise_by_series(measured, line)
    return DemoResults(
        commits,
        verdicts,
        {series: noise_floor_from_pair_noise(noise) for series, noise in pair_noise.items()},
        {series: detectable_effect_from_pair_noise(noise) for series, noise in pair_noise.items()},
    )


def _load_judged_processes(store: Store, project: str) -> dict[Series, dict[str, list[Process]]]:
    """The judged series of the history session, by commit."""
    measured: dict[str, list[tuple[Series, Process]]] = {}
    with store.read() as tx:
        history = [s.uid for s in load_sessions(tx, project) if s.kind == "history"]
        for row in load_session_processes(tx, history[0]):
            measured.setdefault(row.sha, []).append((row.series, row.process))
    return group_judged_processes(measured)
