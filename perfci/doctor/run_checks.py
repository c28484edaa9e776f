"""Run every check of the doctor, one finding after another."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from perfci.config import Config
from perfci.doctor import collect_facts, machine_checks, noise_check, software_checks
from perfci.doctor import suite_checks as suite
from perfci.doctor.findings import DoctorFinding, ok_finding, problem_finding, warning_finding
from perfci.model import Commit, PerfciError
from perfci.runner.cell_outcomes import Discovery
from perfci.runner.git_repository import GitRepository
from perfci.runner.locks import machine_lock
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.runner.prepare_commit import PreparedCommit, prepare_commit
from perfci.runner.suite_cells import expand_cells

OnProgress = Callable[[str], None]
"""Called with a line before a check that takes a while."""


@dataclass(frozen=True, slots=True)
class DoctorTarget:
    """What the doctor examines: a configuration, and the repository and suite where there are any."""

    config: Config
    repository: GitRepository | None
    suite: Path | None = None
    quick: bool = False


def run_checks(target: DoctorTarget, on_progress: OnProgress = lambda line: None) -> Iterator[DoctorFinding]:
    """Yield the findings, cheapest checks first; ``on_progress`` is called before slow ones."""
    config = target.config
    # First of all: later checks would be part of the load themselves.
    facts = collect_facts.read_machine_facts()
    gpus = collect_facts.list_driver_gpus()
    yield software_checks.check_git(collect_facts.read_git_version())
    commit, finding = find_and_check_head_commit(target.repository)
    yield finding
    prepared = None
    if target.repository is not None and commit is not None:
        on_progress(f"preparing {commit.short_sha} as `perfci run` would")
        prepared, finding = prepare_and_check_commit(target.repository, commit, config)
        yield finding
    yield from check_environment(prepared, config, gpus)
    if target.repository is not None and prepared is not None and not prepared.failure_reason:
        yield from check_suite(target, target.repository, prepared.commit)
    yield from machine_checks.check_machine(facts)
    holder = collect_facts.describe_lock_holder(config)
    yield machine_checks.check_machine_lock(holder)
    yield machine_checks.check_database(*collect_facts.probe_database(config))
    yield machine_checks.check_disk(collect_facts.read_free_disk_bytes(config.root))
    if not target.quick:
        yield from run_noise_check(target, prepared, holder, on_progress)


def find_and_check_head_commit(repository: GitRepository | None) -> tuple[Commit | None, DoctorFinding]:
    """Find the commit that is checked out, which the checks are run at."""
    if repository is None:
        advice = "run perfci where the measured code is committed"
        return None, problem_finding("repository", "this folder is not inside a git repository", advice)
    try:
        commit = repository.read_commit(repository.resolve_revision("HEAD"))
    except PerfciError:
        advice = "git add . && git commit -m 'First commit'"
        return None, problem_finding("repository", f"there is no commit in {repository.root}", advice)
    return commit, ok_finding("repository", f"{repository.root} at {commit.short_sha} {commit.subject}")


def prepare_and_check_commit(
    repository: GitRepository, commit: Commit, config: Config
) -> tuple[PreparedCommit | None, DoctorFinding]:
    """Prepare a commit as ``perfci run`` does."""
    advice = "see [environment] in perfci.toml; nothing of this commit can be measured"
    try:
        prepared = prepare_commit(repository, commit, config.settings.environment)
    except PerfciError as error:
        return None, problem_finding("build", str(error), advice)
    if prepared.failure_reason:
        return prepared, problem_finding(
            "build", f"{commit.short_sha} cannot be built: {prepared.failure_reason}", advice
        )
    return prepared, ok_finding("build", f"{commit.short_sha} is imported from {', '.join(prepared.paths)}")


def check_environment(
    prepared: PreparedCommit | None, config: Config, gpus: tuple[str, ...]
) -> Iterator[DoctorFinding]:
    """Check what the measuring interpreter has installed."""
    python = prepared.python if prepared is not None else config.settings.environment.python or sys.executable
    try:
        facts = collect_facts.probe_environment(python)
    except PerfciError as error:
        yield problem_finding(
            "Python", str(error), "name one that runs with [environment] python in perfci.toml"
        )
        return
    yield from software_checks.check_software(facts, asv_runner=metadata.version("asv_runner"), gpus=gpus)


def check_suite(target: DoctorTarget, repository: GitRepository, commit: Commit) -> Iterator[DoctorFinding]:
    """Check that every benchmark of the suite is discovered, and that none was lost since the last run."""
    settings = target.config.settings
    folder = target.suite if target.suite is not None else repository.root / settings.suite.path
    try:
        with MeasurementRunner(repository, settings, folder) as runner:
            runner.prepare_commits([commit])
            discovery = runner.discover_suite(commit.sha)
            sources = collect_facts.read_suite_sources(runner.suite.folder)
            name = runner.suite.name
    except PerfciError as error:
        yield problem_finding(
            "suite", str(error), "a suite is what `perfci init` writes, or any folder of asv benchmarks"
        )
        return
    yield from check_discovery(discovery, sources, settings.suite.timeout_s)
    versions = {benchmark.name: benchmark.version for benchmark in discovery.benchmarks.values()}
    yield from suite.check_lost_or_rewritten_benchmarks(
        versions, collect_facts.load_newest_recorded_suite(target.config, name)
    )


def check_discovery(
    discovery: Discovery, sources: Mapping[str, str], timeout_s: float
) -> Iterator[DoctorFinding]:
    """Check what was discovered against what is written in the modules of the suite."""
    benchmarks = discovery.benchmarks
    yield from suite.check_module_imports(discovery.errors)
    yield suite.check_benchmark_count(
        {benchmark.name: benchmark.type for benchmark in benchmarks.values()},
        len(expand_cells(benchmarks.values(), "", timeout_s)),
    )
    written: list[suite.WrittenFunction] = []
    imported: list[str] = []
    for module, source in sources.items():
        written += suite.list_written_functions(source, module)
        imported += suite.list_names_from_imports(source, module)
    importable = suite.exclude_failed_modules(written, discovery.errors)
    yield from suite.check_unmeasured_functions(importable, benchmarks.keys())
    yield from suite.check_imported_benchmarks(imported, benchmarks.keys())
    yield from suite.check_omitted_metrics(
        (omission.owner, group, omission.reason)
        for omission in discovery.omissions
        for group in omission.omitted_metrics
    )


def run_noise_check(
    target: DoctorTarget, prepared: PreparedCommit | None, holder: str, on_progress: OnProgress
) -> Iterator[DoctorFinding]:
    """Measure A/A pairs for about a minute, where a commit can be measured and no other measurement runs."""
    if target.repository is None or prepared is None or prepared.failure_reason:
        yield warning_finding(
            "noise", "not measured, since there is no commit that can be", "repair what is said above"
        )
        return
    if holder:
        yield warning_finding(
            "noise", "not measured, so as not to disturb who measures", "run perfci doctor after that"
        )
        return
    on_progress("measuring identical runs (A/A) for about a minute (--quick leaves that out)")
    config = target.config
    try:
        with machine_lock(config.lock_path, owner=f"perfci doctor in {config.root}", wait=False):
            measurement = noise_check.measure_aa_pairs(target.repository, config.settings, prepared.commit)
    except PerfciError as error:
        yield problem_finding("noise", f"the A/A run failed: {error}", "repair what is said above")
        return
    yield from noise_check.check_noise(measurement, config.settings.judge)
