"""Is what measures installed, and does asv see all of it? Facts of the measured environment in, findings out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from perfci.doctor.findings import DoctorFinding, format_names, ok, problem, warning

SUPPORTED_PYTHONS = ((3, 11), (3, 13))
"""The oldest and the newest Python that perfci supports."""

MIN_TORCH = (2, 9)
MIN_GIT = (2, 25)


@dataclass(frozen=True, slots=True)
class TorchFacts:
    """What ``import torch`` gave; nothing where it is not installed. ``build`` is ``CPU`` or such as ``CUDA 12.8``."""

    version: str = ""
    error: str = ""
    build: str = ""
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BenchFacts:
    """What perfci.bench found, or the ``error`` of importing it; the other texts are empty where all is well."""

    error: str = ""
    kind: str = "cpu"
    unverified_reason: str = ""
    nvml_error: str = ""
    gpu_flags: tuple[str, ...] = ()
    counter_error: str = ""


@dataclass(frozen=True, slots=True)
class PluginFacts:
    """An installed distribution that was meant for asv: what it exports, and what did not import."""

    name: str
    version: str
    types: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SoftwareFacts:
    """What an interpreter says of itself."""

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
    """``asv_runner`` is the version that perfci is written for, ``gpus`` what the driver's own tool lists."""
    yield check_python(facts)
    yield check_torch(facts.torch, gpus)
    yield check_asv(facts, asv_runner)
    for plugin in facts.plugins:
        yield check_plugin(plugin, facts.types)
    yield from check_bench(facts.bench)


def check_python(facts: SoftwareFacts) -> DoctorFinding:
    oldest, newest = (".".join(map(str, version)) for version in SUPPORTED_PYTHONS)
    told = f"{facts.python} at {facts.executable}"
    if not SUPPORTED_PYTHONS[0] <= parse_version(facts.python)[:2] <= SUPPORTED_PYTHONS[1]:
        advice = f"name another interpreter with [environment] python in perfci.toml; {oldest} to {newest} are supported"
        return problem("Python", told, advice)
    return ok("Python", told)


def check_git(version: str) -> DoctorFinding:
    needed = ".".join(map(str, MIN_GIT))
    if not version:
        return problem("git", "there is no git here", f"install git {needed} or newer")
    if parse_version(version)[:2] < MIN_GIT:
        return problem(
            "git", f"git {version} is too old to read commits safely", f"install git {needed} or newer"
        )
    return ok("git", version)


def check_torch(torch: TorchFacts, gpus: tuple[str, ...]) -> DoctorFinding:
    if torch.error:
        return problem("torch", f"importing torch fails: {torch.error}", "repair or reinstall torch there")
    if not torch.version:
        return warning("torch", "torch is not installed there", "install it, unless nothing measured uses it")
    told = f"{torch.version}, {torch.build} build, {_describe_devices(torch)}"
    if parse_version(torch.version)[:2] < MIN_TORCH:
        return problem("torch", told, f"install torch {'.'.join(map(str, MIN_TORCH))} or newer")
    if gpus and not torch.devices:
        advice = (
            "install a CUDA build of torch"
            if torch.build == "CPU"
            else "compare the driver with torch's CUDA version"
        )
        return problem("torch", f"{told}, although the driver lists {format_names(list(gpus))}", advice)
    return ok("torch", told)


def _describe_devices(torch: TorchFacts) -> str:
    return f"sees {format_names(list(torch.devices))}" if torch.devices else "sees no accelerator"


def check_asv(facts: SoftwareFacts, expected: str) -> DoctorFinding:
    if facts.asv_error:
        return problem(
            "asv", f"importing asv_runner fails: {facts.asv_error}", f"install asv_runner=={expected} there"
        )
    told = f"asv_runner {facts.asv_runner} knows {', '.join(facts.types)}"
    if facts.asv_runner != expected:
        advice = f"install asv_runner=={expected} there: timings and versions of benchmarks shift between its releases"
        return warning("asv", told, advice)
    return ok("asv", told)


def check_plugin(plugin: PluginFacts, registered: tuple[str, ...]) -> DoctorFinding:
    """asv says nothing when it passes a plugin over or swallows its ImportError."""
    told, module = f"{plugin.name} {plugin.version}", re.sub(r"[-.]+", "_", plugin.name)
    if not plugin.name.startswith("asv_bench"):
        sentence = f"{told} is installed and never discovered: asv looks for names that begin with asv_bench"
        return problem(
            "plugin", sentence, f"have its author spell the distribution {module}, with underscores"
        )
    if plugin.errors:
        sentence = f"{told} does not import, so its benchmarks do not exist: {plugin.errors[0]}"
        return problem("plugin", sentence, f"make `import {module}` work there, or uninstall {plugin.name}")
    if not plugin.types:
        sentence = f"{told} exports no benchmark type"
        return problem("plugin", sentence, "its modules in benchmarks/ need a list export_as_benchmark")
    missing = [name for name in plugin.types if name not in registered]
    if missing:
        return problem(
            "plugin",
            f"{told} is there, but asv did not register {format_names(missing)}",
            "reinstall it there",
        )
    return ok("plugin", f"{told} adds {', '.join(plugin.types)}")


def check_bench(bench: BenchFacts) -> Iterator[DoctorFinding]:
    """What a benchmark written with perfci.bench can read here."""
    if bench.error:
        advice = "pip install perfci there, unless no benchmark uses perfci.bench"
        yield warning("perfci.bench", f"it cannot be used there: {bench.error}", advice)
        return
    if bench.unverified_reason:
        yield warning(
            "perfci.bench",
            f"nobody has proven it on {bench.kind} devices: {bench.unverified_reason}",
            "compare a few of its figures with torch.utils.benchmark before you rely on them",
        )
    if bench.kind == "cuda":
        yield from check_gpu(bench)
    yield check_counters(bench.counter_error)


def check_gpu(bench: BenchFacts) -> Iterator[DoctorFinding]:
    """The flags are those a process would carry that was measured now."""
    if bench.nvml_error:
        advice = "pip install nvidia-ml-py there: clocks, power, throttling and other users of the GPU are read by it"
        yield warning("GPU", f"NVML does not answer: {bench.nvml_error}", advice)
        return
    harmful = {"shared_gpu": _report_shared_gpu, "throttled": _report_throttled_gpu}
    flags = [flag.split(": ", 1) for flag in bench.gpu_flags]
    found = [harmful[kind](told) for kind, told in flags if kind in harmful]
    yield from found or [ok("GPU", "NVML answers; it is not slowed down, and nobody else uses it")]


def _report_shared_gpu(detail: str) -> DoctorFinding:
    return problem(
        "GPU", f"somebody else uses it: {detail}", "end that program: nothing measured beside it is judged"
    )


def _report_throttled_gpu(detail: str) -> DoctorFinding:
    advice = "cool it, raise its power limit, or lock its clocks with nvidia-smi -lgc"
    return problem("GPU", f"slowed down although it is idle: {detail}", advice)


def check_counters(error: str) -> DoctorFinding:
    if error:
        advice = "judge by the other counts; where it is a setting: sysctl kernel.perf_event_paranoid=2"
        return warning("instructions", error, advice)
    return ok("instructions", "perf events are allowed: instructions can be counted")


def parse_version(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: ``2.13.0+cpu`` is (2, 13, 0)."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
