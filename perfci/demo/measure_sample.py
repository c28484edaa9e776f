"""The first ten minutes: a sample repository measured commit by commit, and what was found in it."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from perfci.config import Config, load_config
from perfci.demo.sample_repository import make_sample_repository
from perfci.measure.compare_range import run_range
from perfci.measure.open_session import open_subject, open_workbench
from perfci.measure.progress import Watcher
from perfci.model import Commit, Process, Series, Verdict
from perfci.runner.git_repository import Repository, private_folder
from perfci.runner.locks import machine_lock
from perfci.store import Store, open_store, upgrade_if_older
from perfci.store.queries.measurements import session_processes, sessions, verdict_records
from perfci.verdicts.compare.round_candidates import noise_floor, smallest_visible
from perfci.verdicts.judged_series import gated_by_commit

ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Shown:
    """What the demo's store says: current verdicts, and how noisy the machine was for each series."""

    commits: Mapping[str, Commit]
    verdicts: Sequence[Verdict]
    noise_floor: Mapping[Series, float]
    smallest_visible: Mapping[Series, float]


def sample(folder: Path, *, fresh: bool) -> Repository:
    """Make the sample repository below ``folder/.perfci``, or find the one made before."""
    tree = private_folder(folder) / "demo" / "tinylm"
    if fresh or not (tree / ".git").is_dir():
        shutil.rmtree(tree, ignore_errors=True)
        partial = tree.with_name("tinylm.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.parent.mkdir(parents=True, exist_ok=True)
        make_sample_repository(partial)
        partial.rename(tree)
    return Repository(tree)


def sample_config(repository: Repository) -> Config:
    """The sample's own configuration; no variable of the user's environment redirects its store."""
    return load_config(repository.root, {}, slug=repository.slug)


def measure(repository: Repository, config: Config, watcher: Watcher) -> bool:
    """Measure what is not yet measured; False when a finished session was found and nothing had to be done."""
    upgrade_if_older(config.database_url)
    with closing(open_store(config.database_url, create=True)) as store:
        if _finished(store, config.project):
            return False
        commits = repository.line("HEAD")
        with open_workbench(repository, config, None, smoke=True) as workbench:
            subject = open_subject(workbench, commits, "", watcher.say)
            with machine_lock(config.lock_path, owner="perfci demo", waiting=watcher.say):
                run_range(store, workbench, config, subject, ROUNDS, watcher)
    return True


def look(repository: Repository, config: Config) -> Shown:
    """Read back what was stored: everything that is shown comes from there."""
    commits = {commit.sha: commit for commit in repository.line("HEAD")}
    line = list(itertools.pairwise(commits))
    with closing(open_store(config.database_url, create=False)) as store:
        measured = _measured(store, config.project)
        with store.read() as tx:
            verdicts = [record.verdict for record in verdict_records(tx, config.project)]
    return Shown(commits, verdicts, noise_floor(measured, line), smallest_visible(measured, line))


def _finished(store: Store, project: str) -> bool:
    with store.read() as tx:
        return any(s.kind == "history" and s.state == "finished" for s in sessions(tx, project))


def _measured(store: Store, project: str) -> dict[Series, dict[str, list[Process]]]:
    """The judged series of the history session, by commit."""
    measured: dict[str, list[tuple[Series, Process]]] = {}
    with store.read() as tx:
        history = [s.uid for s in sessions(tx, project) if s.kind == "history"]
        for row in session_processes(tx, history[0]):
            measured.setdefault(row.sha, []).append((row.series, row.process))
    return gated_by_commit(measured)
