"""Everything that decides whether measuring here works, one finding after another."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from perfci.config import Config
from perfci.doctor import collect_facts, machine_checks, noise_check, software_checks
from perfci.doctor import suite_checks as suite
from perfci.doctor.findings import Finding, ok, problem, warning
from perfci.model import Commit, PerfciError
from perfci.runner.frozen_suite import cells_of
from perfci.runner.git_repository import Repository
from perfci.runner.locks import machine_lock
from perfci.runner.measurement_runner import Workbench
from perfci.runner.prepare_commit import Prepared, prepare

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Patient:
    """What is examined: a configuration, and the repository and its newest commit where there are any."""

    config: Config
    repository: Repository | None
    suite: Path | None = None
    quick: bool = False


def examine(patient: Patient, say: Say = lambda line: None) -> Iterator[Finding]:
    """Find out and tell, cheapest first; ``say`` hears of what takes a while."""
    config = patient.config
    facts = collect_facts.machine()  # before anything of ours is in the load
    gpus = collect_facts.gpus_of_the_driver()
    yield software_checks.git_finding(collect_facts.git_version())
    commit, found = newest_commit(patient.repository)
    yield found
    prepared = None
    if patient.repository is not None and commit is not None:
        say(f"preparing {commit.short} as `perfci run` would")
        prepared, found = prepared_commit(patient.repository, commit, config)
        yield found
    yield from environment_findings(prepared, config, gpus)
    if patient.repository is not None and prepared is not None and not prepared.failure:
        yield from suite_findings(patient, patient.repository, prepared.commit)
    yield from machine_checks.machine_findings(facts)
    holder = collect_facts.lock_holder(config)
    yield machine_checks.lock_finding(holder)
    yield machine_checks.database_finding(*collect_facts.database(config))
    yield machine_checks.disk_finding(collect_facts.free_disk(config.root))
    if not patient.quick:
        yield from equals_findings(patient, prepared, holder, say)


def newest_commit(repository: Repository | None) -> tuple[Commit | None, Finding]:
    if repository is None:
        advice = "run perfci where the measured code is committed"
        return None, problem("repository", "this folder is not inside a git repository", advice)
    try:
        commit = repository.commit(repository.resolve("HEAD"))
    except PerfciError:
        advice = "git add . && git commit -m 'First commit'"
        return None, problem("repository", f"there is no commit in {repository.root}", advice)
    return commit, ok("repository", f"{repository.root} at {commit.short} {commit.subject}")


def prepared_commit(repository: Repository, commit: Commit, config: Config) -> tuple[Prepared | None, Finding]:
    advice = "see [environment] in perfci.toml; nothing of this commit can be measured"
    try:
        prepared = prepare(repository, commit, config.settings.environment)
    except PerfciError as error:
        return None, problem("build", str(error), advice)
    if prepared.failure:
        return prepared, problem("build", f"{commit.short} cannot be built: {prepared.failure}", advice)
    return prepared, ok("build", f"{commit.short} is imported from {', '.join(prepared.paths)}")


def environment_findings(prepared: Prepared | None, config: Config, gpus: tuple[str, ...]) -> Iterator[Finding]:
    """What the interpreter that measures has installed."""
    python = prepared.python if prepared is not None else config.settings.environment.python or sys.executable
    try:
        facts = collect_facts.environment(python)
    except PerfciError as error:
        yield problem("Python", str(error), "name one that runs with [environment] python in perfci.toml")
        return
    yield from software_checks.software_findings(facts, asv_runner=metadata.version("asv_runner"), gpus=gpus)


def suite_findings(patient: Patient, repository: Repository, commit: Commit) -> Iterator[Finding]:
    settings = patient.config.settings
    folder = patient.suite if patient.suite is not None else repository.root / settings.suite.path
    try:
        with Workbench(repository, settings, folder) as workbench:
            workbench.prepare([commit])
            found = workbench.discover(commit.sha)
            sources = collect_facts.sources_in(workbench.suite.folder)
            name = workbench.suite.name
    except PerfciError as error:
        yield problem("suite", str(error), "a suite is what `perfci init` writes, or any folder of asv benchmarks")
        return
    benchmarks = found.benchmarks
    yield from suite.module_findings(found.errors)
    yield suite.count_finding(
        {benchmark.name: benchmark.type for benchmark in benchmarks.values()},
        len(cells_of(benchmarks.values(), "", settings.suite.timeout_s)),
    )
    written = [one for module, source in sources.items() for one in suite.functions_written(source, module)]
    yield from suite.written_findings(suite.imported(written, found.errors), benchmarks.keys())
    imports = [one for module, source in sources.items() for one in suite.functions_imported(source, module)]
    yield from suite.borrowed_findings(imports, benchmarks.keys())
    groups = ((one.owner, group, one.reason) for one in found.omissions for group in one.omits)
    yield from suite.omitted_findings(groups)
    versions = {benchmark.name: benchmark.version for benchmark in benchmarks.values()}
    yield from suite.lost_findings(versions, collect_facts.recorded(patient.config, name))


def equals_findings(patient: Patient, prepared: Prepared | None, holder: str, say: Say) -> Iterator[Finding]:
    """About a minute of A/A, where there is a commit to measure with and nobody else measures."""
    if patient.repository is None or prepared is None or prepared.failure:
        yield warning("noise", "not measured, since there is no commit that can be", "repair what is said above")
        return
    if holder:
        yield warning("noise", "not measured, so as not to disturb who measures", "run perfci doctor after that")
        return
    say("measuring equals for about a minute (--quick leaves that out)")
    config = patient.config
    try:
        with machine_lock(config.lock_path, owner=f"perfci doctor in {config.root}", wait=False):
            equals = noise_check.measure_equals(patient.repository, config.settings, prepared.commit)
    except PerfciError as error:
        yield problem("noise", f"equals cannot be measured: {error}", "repair what is said above")
        return
    yield from noise_check.quiet_findings(equals, config.settings.judge)
