"""``MeasurementRunner``: prepare commits, freeze the suite, keep fork servers, and measure cells."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from perfci.config import Settings
from perfci.model import Commit, Environment, Machine, NamedValues, PerfciError, Variant
from perfci.runner.cell_outcomes import CellOutcome, Discovery, build_failed_outcome
from perfci.runner.fork_server_client import HARNESS_VERSION, ForkServerClient
from perfci.runner.frozen_suite import FrozenSuite
from perfci.runner.generated_model_suite import freeze_suite_with_models
from perfci.runner.git_repository import GitRepository
from perfci.runner.machine_and_environment import describe_environment, describe_machine
from perfci.runner.measurement_worker_client import CellResult, ProfileRequest, run_interleaved_cells
from perfci.runner.prepare_commit import PreparedCommit, prepare_commit
from perfci.runner.suite_cells import Cell


class MeasurementRunner:
    """Measure cells of commits; use as a context manager, so that nothing it started outlives it."""

    harness = HARNESS_VERSION

    def __init__(
        self,
        repository: GitRepository,
        settings: Settings,
        suite_folder: Path,
        *,
        smoke: bool = False,
        origin: NamedValues = (),
    ) -> None:
        self.repository = repository
        self.settings = settings
        self.smoke = smoke
        self.origin = origin  # the CI job that measures
        own = suite_folder.resolve() == (repository.root / settings.suite.path).resolve()
        self._models = settings.model if own else ()  # a suite named by hand is measured as it is
        self.suite = freeze_suite_with_models(suite_folder, self._models, repository.private_folder)
        self._suite_display_path = _display_path(repository, suite_folder, self.suite.name)
        self.machine: Machine = describe_machine()
        self._uses_commit_suite = settings.suite.source == "commit"
        self._suite_path = _path_in_repository(repository, suite_folder) if self._uses_commit_suite else None
        self._suites: dict[str, FrozenSuite] = {}
        self._prepared: dict[str, PreparedCommit] = {}
        self._parents: dict[tuple[str, str], ForkServerClient] = {}
        self._caches = Path(tempfile.mkdtemp(prefix="perfci-caches-"))

    def __enter__(self) -> MeasurementRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_fork_servers()
        shutil.rmtree(self._caches, ignore_errors=True)

    def prepare_commits(
        self, commits: Sequence[Commit], report: Callable[[Commit, str], None] = lambda *_: None
    ) -> None:
        """Check out and build every commit before anything is measured: no build disturbs a measurement."""
        for commit in commits:
            if commit.sha not in self._prepared:
                prepared = self._freeze_commit_suite(
                    prepare_commit(self.repository, commit, self.settings.environment)
                )
                self._prepared[commit.sha] = prepared
                report(commit, prepared.failure_reason)

    def discover_suite(self, sha: str) -> Discovery:
        """Import the suite against one commit and list what it holds."""
        prepared = self._prepared[sha]
        if prepared.failure_reason:
            raise PerfciError(
                f"commit {prepared.commit.short_sha} cannot be measured: {prepared.failure_reason}"
            )
        return self._parent(prepared).get_or_fork_worker().discover_suite(prepared)

    def visit_commit(self, sha: str, cells: Sequence[Cell]) -> Iterator[CellResult]:
        """Measure cells at one commit, each once in a fresh process."""
        prepared = self._prepared[sha]
        if prepared.failure_reason:
            yield from fail_all_cells(prepared, cells)
        else:
            yield from (
                self._parent(prepared).get_or_fork_worker().measure_cells(prepared, cells, self._caches)
            )

    def can_interleave(self, shas: Iterable[str]) -> bool:
        """Whether processes of these commits may be alive together and be measured in turns.

        Both then hold their memory, and that of an accelerator is scarce: there it has to be configured.
        """
        setting = self.settings.run.interleave
        allowed = setting == "always" or (setting == "auto" and not self.machine.accelerators)
        return allowed and not any(self._prepared[sha].failure_reason for sha in shas)

    def visit_commits_interleaved(
        self, shas: Sequence[str], rows: Sequence[Sequence[Cell]]
    ) -> Iterator[Sequence[CellResult]]:
        """Visit several commits (or one, repeatedly) at once; the cells of each row take turns.

        The k-th cell of a row is measured at the k-th commit.
        """
        used: Counter[ForkServerClient] = Counter()
        # Another core for each visit, so that what is peculiar to one core is not part of every pair.
        core = random.choice(sorted(os.sched_getaffinity(0)))
        worker_visits = []
        for place, prepared in enumerate(self._prepared[sha] for sha in shas):
            parent = self._parent(prepared)
            worker = parent.get_or_fork_worker(used[parent])
            cells = [row[place] for row in rows if place < len(row)]
            worker_visits.append(
                worker.start_visit(prepared, cells, self._caches, concurrent_visits=len(shas), core=core)
            )
            used[parent] += 1
        return run_interleaved_cells(worker_visits, rows)

    def profile_cells(
        self,
        sha: str,
        cells: Sequence[Cell],
        output_folders: Mapping[str, Path],
        sampled_cpu_s: float | None = None,
    ) -> Iterator[CellOutcome]:
        """Profile cells, each into its folder; those without one run in NVTX ranges and write nothing."""
        prepared = self._prepared[sha]
        if prepared.failure_reason:
            outcomes = fail_all_cells(prepared, cells)
        else:
            roots = dict.fromkeys([str(prepared.tree), *prepared.paths], "")
            roots[str(self._commit_suite(prepared).folder)] = self._suite_display_path
            folders = {name: str(folder) for name, folder in output_folders.items()}
            request = ProfileRequest(folders, roots, sampled_cpu_s)
            outcomes = (
                self._parent(prepared)
                .get_or_fork_worker()
                .measure_cells(prepared, cells, self._caches, request)
            )
        yield from (outcome for outcome, _ in outcomes)

    def describe_environment(self, sha: str) -> Environment:
        """Describe the versions that a commit is measured with."""
        hello = self._environment_hello(sha)
        return describe_environment(python=hello.get("python", ""), torch=hello.get("torch", ""))

    def describe_environment_variant(self, sha: str) -> Variant:
        """The chosen variant: the minor version of Python, and whether the smoke sizes were requested."""
        python = ".".join(str(self._environment_hello(sha).get("python", "")).split(".")[:2])
        return Variant((("python", python), *((("size", "smoke"),) if self.smoke else ())))

    def _environment_hello(self, sha: str) -> dict[str, Any]:
        """Hello message of the commit's environment, or of another commit's where it was not built."""
        prepared = self._prepared[sha]
        if prepared.failure_reason:
            prepared = next((p for p in self._prepared.values() if not p.failure_reason), prepared)
        return {} if prepared.failure_reason else self._parent(prepared).hello

    def close_fork_servers(self) -> None:
        """Close the fork servers; the next visit starts fresh ones with another memory layout."""
        for parent in self._parents.values():
            parent.close()
        self._parents.clear()

    def _parent(self, prepared: PreparedCommit) -> ForkServerClient:
        suite = self._commit_suite(prepared)
        key = (prepared.python, suite.digest)
        if key not in self._parents:
            self._parents[key] = ForkServerClient(
                prepared.python,
                suite,
                launch=self._launch_method(),
                threads=self.settings.run.threads,
                preload=self._list_preloads(prepared, suite),
                variables={"PERFCI_SMOKE": "1"} if self.smoke else {},
            )
        return self._parents[key]

    def _freeze_commit_suite(self, prepared: PreparedCommit) -> PreparedCommit:
        """Freeze the commit's own suite where configured; a commit without one cannot be measured."""
        if self._suite_path is None or prepared.failure_reason:
            return prepared
        try:
            folder = prepared.tree / self._suite_path
            frozen = freeze_suite_with_models(folder, self._models, self.repository.private_folder)
            self._suites[prepared.commit.sha] = frozen
        except PerfciError as error:
            return replace(prepared, failure_reason=str(error))
        return prepared

    def _commit_suite(self, prepared: PreparedCommit) -> FrozenSuite:
        return self._suites.get(prepared.commit.sha, self.suite)

    def _launch_method(self) -> str:
        """Fork where it is faithful; a process that will touch CUDA has to be started from nothing."""
        configured = self.settings.run.launch
        if configured != "auto":
            return configured
        return "spawn" if self.machine.accelerators else "fork"

    def _list_preloads(self, prepared: PreparedCommit, suite: FrozenSuite) -> list[str]:
        """Import torch ahead where suite or project mention it, but never in place of the project's own."""
        modules = [m for m in self.settings.environment.preload if m.split(".")[0] not in prepared.modules]
        sources = [*suite.folder.rglob("*.py"), *prepared.tree.rglob("*.py")]
        roots = {name.split(".")[0].encode() for name in modules}
        used = (
            {root for source in sources for root in roots if root in _read_bytes(source)} if roots else set()
        )
        return [name for name in modules if name.split(".")[0].encode() in used]


def fail_all_cells(prepared: PreparedCommit, cells: Sequence[Cell]) -> Iterator[CellResult]:
    """Yield a failure of every cell for a commit that does not build, with the build's log."""
    for cell in cells:
        yield (
            build_failed_outcome(cell, prepared.failure_reason, stderr_tail=prepared.build_log),
            Discovery({}, ()),
        )


def _path_in_repository(repository: GitRepository, folder: Path) -> Path:
    """Where a suite lies in every commit's tree."""
    try:
        return folder.resolve().relative_to(repository.root.resolve())
    except ValueError:
        raise PerfciError(
            f"[suite] source = 'commit' needs a suite inside {repository.root}; {folder} is outside"
        ) from None


def _display_path(repository: GitRepository, folder: Path, name: str) -> str:
    """The suite's folder relative to the repository, or its name where it lies outside."""
    own = folder.resolve() if folder.resolve().name == name else folder.resolve() / name
    root = repository.root.resolve()
    return str(own.relative_to(root)) if own.is_relative_to(root) else name


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
