"""Open a measuring session from the options of a user; nothing is stored before all of them are valid."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from perfci.config import Config
from perfci.measure.measure_and_store_session import MeasurementSession, OnProcess, SessionScope
from perfci.model import Commit, PerfciError
from perfci.runner.cell_outcomes import Discovery
from perfci.runner.git_repository import GitRepository
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.runner.suite_cells import Cell, apply_measured_costs, expand_cells, select_default_suite
from perfci.store import Store
from perfci.store.queries.cell_durations import load_cell_durations
from perfci.store.queries.runs_and_sessions import load_sessions
from perfci.store.writes.measured_sessions import find_unfinished_session

OnMessage = Callable[[str], None]
"""Called with a line about the preparation, for a terminal or a log."""


def create_suite_runner(
    repository: GitRepository, config: Config, suite: Path | None, *, smoke: bool
) -> MeasurementRunner:
    """Create the runner of a suite, by default the one of the configuration."""
    folder = suite if suite is not None else repository.root / config.settings.suite.path
    origin = config.github.run_origin_fields if config.github else ()
    return MeasurementRunner(repository, config.settings, folder, smoke=smoke, origin=origin)


def prepare_session_scope(
    runner: MeasurementRunner,
    commits: Sequence[Commit],
    bench: str,
    on_message: OnMessage,
    *,
    default_only: bool = False,
) -> SessionScope:
    """Prepare every commit and list the cells, with ``default_only`` those of the default suite alone.

    Raise where the suite does not import or no benchmark matches.
    """

    def report_build(commit: Commit, failure: str) -> None:
        if failure:
            on_message(f"commit {commit.short_sha} ({commit.subject}) cannot be built: {failure}")

    runner.prepare_commits(commits, report_build)
    discovery = _discover_benchmarks(runner, commits)
    if not discovery.benchmarks and discovery.errors:
        module, error = discovery.errors[0]
        raise PerfciError(f"the suite does not import: {module}: {error}")
    for module, error in discovery.errors:
        on_message(f"module {module} of the suite does not import and is left out: {error}")
    cells = expand_cells(discovery.benchmarks.values(), bench, runner.settings.suite.timeout_s)
    if not cells:
        raise PerfciError(_format_no_match(bench, discovery, runner))
    if default_only:
        cells = _restrict_to_default_suite(cells, on_message)
    for omission in discovery.omissions:
        # Of a selection only the classes it holds: the rest was left out on purpose.
        if not bench or any(cell.benchmark.startswith(omission.owner + ".") for cell in cells):
            on_message(str(omission))
    return SessionScope({commit.sha: commit for commit in commits}, discovery, tuple(cells))


def _restrict_to_default_suite(cells: Sequence[Cell], on_message: OnMessage) -> list[Cell]:
    """Select the default suite, and say so where that leaves cells out."""
    selected = select_default_suite(cells)
    if not selected:
        raise PerfciError(
            "no benchmark that was asked for is of the default suite; --suite full measures them all"
        )
    if len(selected) < len(cells):
        on_message(f"default suite: {len(selected)} of {len(cells)} cells; --suite full measures them all")
    return selected


def replace_declared_with_measured_costs(
    store: Store, runner: MeasurementRunner, project: str, scope: SessionScope
) -> SessionScope:
    """Replace declared costs of cells, and the timeouts that follow, by what earlier runs here measured."""
    variant = runner.describe_environment_variant(next(iter(scope.commits)))
    with store.read() as tx:
        measured_s = load_cell_durations(tx, project, runner.machine, variant)
    return replace(scope, cells=tuple(apply_measured_costs(scope.cells, measured_s)))


def _discover_benchmarks(runner: MeasurementRunner, commits: Sequence[Commit]) -> Discovery:
    """Discover at the newest commit that builds and imports; older ones may lack what a benchmark needs."""
    discovery: Discovery | None = None
    failure: PerfciError | None = None
    for commit in reversed(commits):
        try:
            discovery = runner.discover_suite(commit.sha)
        except PerfciError as error:
            failure = failure or error
            continue
        if discovery.benchmarks:
            return discovery
    if discovery is None:
        raise failure or PerfciError("there is no commit to measure")
    return discovery


def _format_no_match(bench: str, discovery: Discovery, runner: MeasurementRunner) -> str:
    names = sorted(discovery.benchmarks)
    if not names:
        return (
            f"the suite {runner.suite.name} holds no benchmark; asv's names were expected: "
            "functions or methods that begin with measure_, time_, mem_, peakmem_ or track_"
        )
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"no benchmark matches --bench {bench!r}; the suite has {shown}"


def open_measurement_session(
    store: Store,
    runner: MeasurementRunner,
    project: str,
    scope: SessionScope,
    kind: str,
    *,
    rounds: int = 0,
    identity: str = "",
    on_process: OnProcess = lambda visit, outcome: None,
    on_message: OnMessage = lambda line: None,
) -> MeasurementSession:
    """Start a session, or resume the unfinished one that has exactly the same specification."""
    spec = _compute_spec_hash(runner, scope, kind, rounds, identity)
    with store.read() as tx:
        unfinished = find_unfinished_session(tx, project, spec)
        count = len(load_sessions(tx, project))
    if unfinished:
        uid, seed = unfinished.uid, unfinished.seed
    else:
        uid = f"{kind}-{spec[:8]}-{count}-{secrets.token_hex(4)}"
        # From the uid alone, so that whoever reads the session can draw its order again.
        seed = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:4], "big")
    session = MeasurementSession(store, runner, project, uid, seed, scope, on_process)
    if unfinished:
        session.load_committed_readings()
        on_message(f"resuming an interrupted session: {len(session.readings)} readings are there already")
    else:
        session.start(kind, spec, rounds)
    return session


def _compute_spec_hash(
    runner: MeasurementRunner, scope: SessionScope, kind: str, rounds: int, identity: str
) -> str:
    """Hash everything that makes two sessions measure the same."""
    settings = runner.settings
    spec = [
        kind,
        rounds,
        identity,
        sorted(scope.commits),
        [cell.name for cell in scope.cells],
        runner.suite.digest,
        repr(runner.machine),
        runner.smoke,
        settings.environment.model_dump(),
        settings.run.model_dump(),
        runner.harness,
    ]
    return hashlib.sha256(json.dumps(spec, default=str).encode()).hexdigest()
