"""From what a user typed to a session that can be measured; nothing is written before all of it holds."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfci.config import Config
from perfci.measure.measurement_session import OnProcess, Session
from perfci.model import Commit, PerfciError
from perfci.runner.cell_outcomes import Discovery
from perfci.runner.frozen_suite import Cell, cells_of
from perfci.runner.git_repository import Repository
from perfci.runner.measurement_runner import Workbench
from perfci.store import Store
from perfci.store.queries.measurements import sessions
from perfci.store.writes.ingest import unfinished_session

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Subject:
    """What a session is about: the commits, and the cells the suite has for them."""

    commits: Mapping[str, Commit]
    discovery: Discovery
    cells: tuple[Cell, ...]


def open_workbench(repository: Repository, config: Config, suite: Path | None, *, smoke: bool) -> Workbench:
    folder = suite if suite is not None else repository.root / config.settings.suite.path
    origin = config.github.origin if config.github else ()
    return Workbench(repository, config.settings, folder, smoke=smoke, origin=origin)


def open_subject(workbench: Workbench, commits: Sequence[Commit], bench: str, say: Say) -> Subject:
    """Prepare every commit and list the cells; a suite that cannot be imported is a user's error, said at once."""
    workbench.prepare(commits, lambda commit, failure: say(_prepared(commit, failure)) if failure else None)
    discovery = _discover(workbench, commits)
    if not discovery.benchmarks and discovery.errors:
        module, error = discovery.errors[0]
        raise PerfciError(f"the suite does not import: {module}: {error}")
    for module, error in discovery.errors:
        say(f"module {module} of the suite does not import and is left out: {error}")
    cells = cells_of(discovery.benchmarks.values(), bench, workbench.settings.suite.timeout_s)
    if not cells:
        raise PerfciError(_no_cells(bench, discovery, workbench))
    for omission in discovery.omissions:
        if not bench or any(cell.benchmark.startswith(omission.owner + ".") for cell in cells):
            say(str(omission))
    return Subject({commit.sha: commit for commit in commits}, discovery, tuple(cells))


def _discover(workbench: Workbench, commits: Sequence[Commit]) -> Discovery:
    """Ask the newest commit that builds and imports; older ones may lack what a benchmark needs."""
    found: Discovery | None = None
    failure: PerfciError | None = None
    for commit in reversed(commits):
        try:
            found = workbench.discover(commit.sha)
        except PerfciError as error:
            failure = failure or error
            continue
        if found.benchmarks:
            return found
    if found is None:
        raise failure or PerfciError("there is no commit to measure")
    return found


def _prepared(commit: Commit, failure: str) -> str:
    return f"commit {commit.short} ({commit.subject}) cannot be built: {failure}"


def _no_cells(bench: str, discovery: Discovery, workbench: Workbench) -> str:
    names = sorted(discovery.benchmarks)
    if not names:
        return (
            f"the suite {workbench.suite.name} holds no benchmark; asv's names were expected: functions or methods "
            "that begin with measure_, time_, mem_, peakmem_ or track_"
        )
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"no benchmark matches --bench {bench!r}; the suite has {shown}"


def open_session(
    store: Store, workbench: Workbench, project: str, subject: Subject, kind: str, *, rounds: int = 0,
    about: str = "", on_process: OnProcess = lambda visit, outcome: None, say: Say = lambda line: None,
) -> Session:  # fmt: skip
    """Start a session, or take up the unfinished one that asked for exactly the same."""
    spec = _spec_hash(workbench, subject, kind, rounds, about)
    with store.read() as tx:
        known = unfinished_session(tx, project, spec)
        count = len(sessions(tx, project)) if known is None else 0
    uid = known.uid if known else f"{kind}-{spec[:8]}-{count}-{secrets.token_hex(4)}"
    seed = known.seed if known else int.from_bytes(hashlib.sha256(uid.encode()).digest()[:4], "big")
    session = Session(store, workbench, project, uid, seed, subject.commits, subject.discovery.benchmarks, on_process)
    if known:
        session.resume()
        say(f"resuming an interrupted session: {sum(map(len, session.measured.values()))} readings are there already")
    else:
        session.start(kind, spec, rounds)
    return session


def _spec_hash(workbench: Workbench, subject: Subject, kind: str, rounds: int, about: str) -> str:
    settings = workbench.settings
    asked = [
        kind, rounds, about, sorted(subject.commits), [cell.name for cell in subject.cells], workbench.suite.digest,
        repr(workbench.machine), workbench.smoke, settings.environment.model_dump(), settings.run.model_dump(),
        workbench.harness,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(asked, default=str).encode()).hexdigest()
