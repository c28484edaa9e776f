"""Check the software of the measured environment: facts in, findings out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from perfci.doctor.findings import (
    DoctorFinding,
    format_first_names,
    ok_finding,
    problem_finding,
    warning_finding,
)

SUPPORTED_PYTHONS = ((3, 11), (3, 13))
"""The oldest and the newest Python that perfci supports."""

MIN_TORCH = (2, 9)
"""The oldest torch that perfci supports."""

MIN_GIT = (2, 25)
"""The oldest git that reads commits of an untrusted repository safely."""


@dataclass(frozen=True, slots=True)
class TorchFacts:
    """The installed torch, empty where there is none; ``build`` is ``CPU`` or, for example, ``CUDA 12.8``."""

    version: str = ""
    error: str = ""
    build: str = ""
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BenchFacts:
    """What perfci.bench can read, or the ``error`` of importing it.

    The other texts are empty without a fault.
    """

    error: str = ""
    kind: str = "cpu"
    unverified_reason: str = ""
    nvml_error: str = ""
    gpu_flags: tuple[str, ...] = ()
    counter_error: str = ""


@dataclass(frozen=True, slots=True)
class PluginFacts:
    """An installed distribution meant for asv: the types it exports, and the errors of importing it."""

    name: str
    version: str
    types: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SoftwareFacts:
    """The software of the measured interpreter."""

    python: str
    executable: str
    torch: TorchFacts = TorchFacts()
    asv_runner: str = ""
    asv_error: str = ""
    types: tuple[str, ...] = ()
    plugins: tuple[PluginFacts, ...] = ()
    bench: BenchFacts = BenchFacts()


def check_software(
    facts: SoftwareFacts, *, asv_runner: str, gpus: tuple[str, ...]
) -> Iterator[DoctorFinding]:
    """Check all software; ``asv_runner`` is the supported version, ``gpus`` what the driver's tool lists."""
    yield check_python(facts)
    yield check_torch(facts.torch, gpus)
    yield check_asv_runner(facts, asv_runner)
    for plugin in facts.plugins:
        yield check_asv_plugin(plugin, facts.types)
    yield from check_bench_readings(facts.bench)


def check_python(facts: SoftwareFacts) -> DoctorFinding:
    """Report a Python that perfci does not support."""
    oldest, newest = (".".join(map(str, version)) for version in SUPPORTED_PYTHONS)
    sentence = f"{facts.python} at {facts.executable}"
    if not SUPPORTED_PYTHONS[0] <= parse_version(facts.python)[:2] <= SUPPORTED_PYTHONS[1]:
        advice = (
            "name another interpreter with [environment] python in perfci.toml; "
            f"{oldest} to {newest} are supported"
        )
        return problem_finding("Python", sentence, advice)
    return ok_finding("Python", sentence)


def check_git(version: str) -> DoctorFinding:
    """Report a missing or too old git."""
    needed = ".".join(map(str, MIN_GIT))
    if not version:
        return problem_finding("git", "there is no git here", f"install git {needed} or newer")
    if parse_version(version)[:2] < MIN_GIT:
        return problem_finding(
            "git", f"git {version} is too old to read commits safely", f"install git {needed} or newer"
        )
    return ok_finding("git", version)


def check_torch(torch: TorchFacts, gpus: tuple[str, ...]) -> DoctorFinding:
    """Report a torch that is missing, broken, too old, or blind to the driver's GPUs."""
    if torch.error:
        return problem_finding(
            "torch", f"importing torch fails: {torch.error}", "repair or reinstall torch there"
        )
    if not torch.version:
        return warning_finding(
            "torch", "torch is not installed there", "install it, unless nothing measured uses it"
        )
    devices = f"sees {format_first_names(list(torch.devices))}" if torch.devices else "sees no accelerator"
    sentence = f"{torch.version}, {torch.build} build, {devices}"
    if parse_version(torch.version)[:2] < MIN_TORCH:
        return problem_finding("torch", sentence, f"install torch {'.'.join(map(str, MIN_TORCH))} or newer")
    if gpus and not torch.devices:
        advice = (
            "install a CUDA build of torch"
            if torch.build == "CPU"
            else "compare the driver with torch's CUDA version"
        )
        return problem_finding(
            "torch", f"{sentence}, although the driver lists {format_first_names(list(gpus))}", advice
        )
    return ok_finding("torch", sentence)


def check_asv_runner(facts: SoftwareFacts, expected: str) -> DoctorFinding:
    """Report an asv_runner of another version than the supported one."""
    if facts.asv_error:
        return problem_finding(
            "asv", f"importing asv_runner fails: {facts.asv_error}", f"install asv_runner=={expected} there"
        )
    sentence = f"asv_runner {facts.asv_runner} knows {', '.join(facts.types)}"
    if facts.asv_runner != expected:
        advice = (
            f"install asv_runner=={expected} there: timings and versions of benchmarks shift "
            "between its releases"
        )
        return warning_finding("asv", sentence, advice)
    return ok_finding("asv", sentence)


def check_asv_plugin(plugin: PluginFacts, registered: tuple[str, ...]) -> DoctorFinding:
    """Report a plugin that asv does not load: it skips plugins and swallows their import errors silently."""
    title, module = f"{plugin.name} {plugin.version}", re.sub(r"[-.]+", "_", plugin.name)
    if not plugin.name.startswith("asv_bench"):
        sentence = f"{title} is installed and never discovered: asv looks for names that begin with asv_bench"
        return problem_finding(
            "plugin", sentence, f"have its author spell the distribution {module}, with underscores"
        )
    if plugin.errors:
        sentence = f"{title} does not import, so its benchmarks do not exist: {plugin.errors[0]}"
        return problem_finding(
            "plugin", sentence, f"make `import {module}` work there, or uninstall {plugin.name}"
        )
    if not plugin.types:
        sentence = f"{title} exports no benchmark type"
        return problem_finding(
            "plugin", sentence, "its modules in benchmarks/ need a list export_as_benchmark"
        )
    missing = [name for name in plugin.types if name not in registered]
    if missing:
        return problem_finding(
            "plugin",
            f"{title} is there, but asv did not register {format_first_names(missing)}",
            "reinstall it there",
        )
    return ok_finding("plugin", f"{title} adds {', '.join(plugin.types)}")


def check_bench_readings(bench: BenchFacts) -> Iterator[DoctorFinding]:
    """Check what a benchmark written with perfci.bench can read here."""
    if bench.error:
        advice = "install perfci there (docs/publishing.md), unless no benchmark uses perfci.bench"
        yield warning_finding("perfci.bench", f"it cannot be used there: {bench.error}", advice)
        return
    if bench.unverified_reason:
        yield warning_finding(
            "perfci.bench",
            f"not verified on {bench.kind} devices: {bench.unverified_reason}",
            "compare a few of its figures with torch.utils.benchmark before you rely on them",
        )
    if bench.kind == "cuda":
        yield from check_gpu(bench)
    yield check_instruction_counter(bench.counter_error)


def check_gpu(bench: BenchFacts) -> Iterator[DoctorFinding]:
    """Report another user of the GPU or throttling, by the flags a process measured now would have."""
    if bench.nvml_error:
        advice = (
            "pip install nvidia-ml-py there: "
            "clocks, power, throttling and other users of the GPU are read by it"
        )
        yield warning_finding("GPU", f"NVML does not answer: {bench.nvml_error}", advice)
        return
    is_harmless = True
    for kind, detail in (flag.split(": ", 1) for flag in bench.gpu_flags):
        if kind == "shared_gpu":
            advice = "end that program: nothing measured beside it is judged"
            yield problem_finding("GPU", f"somebody else uses it: {detail}", advice)
        elif kind == "throttled":
            advice = "cool it, raise its power limit, or lock its clocks with nvidia-smi -lgc"
            yield problem_finding("GPU", f"slowed down although it is idle: {detail}", advice)
        is_harmless &= kind not in ("shared_gpu", "throttled")
    if is_harmless:
        yield ok_finding("GPU", "NVML answers; it is not slowed down, and nobody else uses it")


def check_instruction_counter(error: str) -> DoctorFinding:
    """Warn where the processor's instruction counter cannot be read."""
    if error:
        advice = "judge by the other counts; where it is a setting: sysctl kernel.perf_event_paranoid=2"
        return warning_finding("instructions", error, advice)
    return ok_finding("instructions", "perf events are allowed: instructions can be counted")


def parse_version(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: ``2.13.0+cpu`` is (2, 13, 0)."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()
