"""Prepared commits, a frozen suite and living environment parents: everything a session measures with."""

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
from perfci.model import Commit, Environment, Machine, Pairs, PerfciError, Variant
from perfci.runner.cell_outcomes import Discovery, Outcome, lost
from perfci.runner.environment_parent import HARNESS, EnvironmentParent
from perfci.runner.frozen_suite import Cell, Suite
from perfci.runner.git_repository import Repository
from perfci.runner.machine_info import observed_environment, this_machine
from perfci.runner.measurement_worker import Measured, Profiles, beside
from perfci.runner.model_tables import freeze_with_models
from perfci.runner.prepare_commit import Prepared, prepare


class Workbench:
    """Measures cells of commits; use as a context manager, so that nothing it started outlives it."""

    harness = HARNESS

    def __init__(
        self, repository: Repository, settings: Settings, suite_folder: Path, *, smoke: bool = False, origin: Pairs = ()
    ) -> None:  # fmt: skip
        self.repository = repository
        self.settings = settings
        self.smoke = smoke
        self.origin = origin  # the job of a CI system that this is done in
        own = suite_folder.resolve() == (repository.root / settings.suite.path).resolve()
        self._models = settings.model if own else ()  # a suite named by hand is measured as it is
        self.suite = freeze_with_models(suite_folder, self._models, repository.private)
        self._suite_shown = _shown(repository, suite_folder, self.suite.name)
        self.machine: Machine = this_machine()
        self._from_commit = settings.suite.source == "commit"
        self._suite_path = _inside(repository, suite_folder) if self._from_commit else None
        self._suites: dict[str, Suite] = {}
        self._prepared: dict[str, Prepared] = {}
        self._parents: dict[tuple[str, str], EnvironmentParent] = {}
        self._caches = Path(tempfile.mkdtemp(prefix="perfci-caches-"))

    def __enter__(self) -> Workbench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.renew()
        shutil.rmtree(self._caches, ignore_errors=True)

    def prepare(self, commits: Sequence[Commit], report: Callable[[Commit, str], None] = lambda *_: None) -> None:
        """Check out and build every commit before anything is measured, so that no build disturbs a measurement."""
        for commit in commits:
            if commit.sha not in self._prepared:
                prepared = self._with_suite(prepare(self.repository, commit, self.settings.environment))
                self._prepared[commit.sha] = prepared
                report(commit, prepared.failure)

    def discover(self, sha: str) -> Discovery:
        """Import the suite against one commit and list what it holds."""
        prepared = self._prepared[sha]
        if prepared.failure:
            raise PerfciError(f"commit {prepared.commit.short} cannot be measured: {prepared.failure}")
        return self._parent(prepared).desk().discover(prepared)

    def visit(self, sha: str, cells: Sequence[Cell]) -> Iterator[Measured]:
        prepared = self._prepared[sha]
        if prepared.failure:
            yield from not_built(prepared, cells)
        else:
            yield from self._parent(prepared).desk().measure(prepared, cells, self._caches)

    def can_take_turns(self, shas: Iterable[str]) -> bool:
        """Whether processes of these commits may be alive together and be measured in turns.

        Both then hold their memory, and an accelerator's is the scarce one: there it has to be asked for.
        """
        wanted = self.settings.run.turns
        spare = wanted == "always" or (wanted == "auto" and not self.machine.accelerators)
        return spare and not any(self._prepared[sha].failure for sha in shas)

    def visit_beside(self, shas: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Iterator[Sequence[Measured]]:
        """Visit several commits (or one, several times) at once; the processes of each row of cells take turns.

        The k-th cell of a row is measured at the k-th commit.
        """
        used: Counter[EnvironmentParent] = Counter()
        core = random.choice(sorted(os.sched_getaffinity(0)))
        stays = []
        for place, prepared in enumerate(self._prepared[sha] for sha in shas):
            parent = self._parent(prepared)
            desk = parent.desk(used[parent])
            cells = [row[place] for row in rows if place < len(row)]
            stays.append(desk.begin(prepared, cells, self._caches, abreast=len(shas), core=core))
            used[parent] += 1
        return beside(stays, rows)

    def profile(self, sha: str, cells: Sequence[Cell], folders: Mapping[str, Path]) -> Iterator[Outcome]:
        """Profile cells, each into the folder of its name; those without one run in NVTX ranges and write nothing."""
        prepared = self._prepared[sha]
        if prepared.failure:
            outcomes = not_built(prepared, cells)
        else:
            roots = dict.fromkeys([str(prepared.tree), *prepared.paths], "")
            roots[str(self._suite_of(prepared).folder)] = self._suite_shown
            asked = Profiles({name: str(folder) for name, folder in folders.items()}, roots)
            outcomes = self._parent(prepared).desk().measure(prepared, cells, self._caches, asked)
        yield from (outcome for outcome, _ in outcomes)

    def environment(self, sha: str) -> Environment:
        hello = self._hello(sha)
        return observed_environment(python=hello.get("python", ""), torch=hello.get("torch", ""))

    def variant(self, sha: str) -> Variant:
        """What someone chose: the Python line, and whether the small sizes were asked for."""
        python = ".".join(str(self._hello(sha).get("python", "")).split(".")[:2])
        return Variant((("python", python), *((("size", "smoke"),) if self.smoke else ())))

    def _hello(self, sha: str) -> dict[str, Any]:
        """What the commit's environment said of itself; a commit that was not built borrows a neighbour's words."""
        prepared = self._prepared[sha]
        if prepared.failure:
            prepared = next((p for p in self._prepared.values() if not p.failure), prepared)
        return {} if prepared.failure else self._parent(prepared).hello

    def renew(self) -> None:
        """Let the environment parents go; the next visit starts fresh ones with another memory layout."""
        for parent in self._parents.values():
            parent.close()
        self._parents.clear()

    def _parent(self, prepared: Prepared) -> EnvironmentParent:
        suite = self._suite_of(prepared)
        key = (prepared.python, suite.digest)
        if key not in self._parents:
            self._parents[key] = EnvironmentParent(
                prepared.python,
                suite,
                launch=self._launch(),
                threads=self.settings.run.threads,
                preload=self._preload(prepared, suite),
                variables={"PERFCI_SMOKE": "1"} if self.smoke else {},
            )
        return self._parents[key]

    def _with_suite(self, prepared: Prepared) -> Prepared:
        """Freeze the commit's own suite, where that is what measures it; a commit without one cannot be measured."""
        if self._suite_path is None or prepared.failure:
            return prepared
        try:
            folder = prepared.tree / self._suite_path
            frozen = freeze_with_models(folder, self._models, self.repository.private)
            self._suites[prepared.commit.sha] = frozen
        except PerfciError as error:
            return replace(prepared, failure=str(error))
        return prepared

    def _suite_of(self, prepared: Prepared) -> Suite:
        return self._suites.get(prepared.commit.sha, self.suite)

    def _launch(self) -> str:
        """Fork where it is faithful; a process that will touch CUDA has to be started from nothing."""
        configured = self.settings.run.launch
        if configured != "auto":
            return configured
        return "spawn" if self.machine.accelerators else "fork"

    def _preload(self, prepared: Prepared, suite: Suite) -> list[str]:
        """Import torch ahead where suite or project mention it, but never in place of the project's own."""
        wanted = [m for m in self.settings.environment.preload if m.split(".")[0] not in prepared.modules]
        sources = [*suite.folder.rglob("*.py"), *prepared.tree.rglob("*.py")]
        roots = {name.split(".")[0].encode() for name in wanted}
        used = {root for source in sources for root in roots if root in _read(source)} if roots else set()
        return [name for name in wanted if name.split(".")[0].encode() in used]


def not_built(prepared: Prepared, cells: Sequence[Cell]) -> Iterator[Measured]:
    """A commit that does not build is a result of every cell, with the build's log."""
    for cell in cells:
        yield lost(cell, prepared.failure, tail=prepared.log), Discovery({}, ())


def _inside(repository: Repository, folder: Path) -> Path:
    """Where a suite lies in every commit's tree."""
    try:
        return folder.resolve().relative_to(repository.root.resolve())
    except ValueError:
        raise PerfciError(
            f"[suite] source = 'commit' needs a suite inside {repository.root}; {folder} is outside"
        ) from None


def _shown(repository: Repository, folder: Path, name: str) -> str:
    """How a suite's folder is written for those who know the repository."""
    own = folder.resolve() if folder.resolve().name == name else folder.resolve() / name
    root = repository.root.resolve()
    return str(own.relative_to(root)) if own.is_relative_to(root) else name


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
