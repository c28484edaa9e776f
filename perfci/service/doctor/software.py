"""Is what measures installed, and does asv see all of it? Facts of the measured environment in, findings out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from perfci.service.doctor.findings import Finding, listed, ok, problem, warning

PYTHONS = ((3, 11), (3, 13))
"""The oldest and the newest Python that perfci supports."""

TORCH = (2, 9)
GIT = (2, 25)


@dataclass(frozen=True, slots=True)
class TorchFacts:
    """What ``import torch`` gave. ``build`` is ``CPU``, ``CUDA 12.8`` or ``ROCm 6.4``; ``why_unmeasured`` is empty
    where somebody has measured perfci on this kind of device."""

    version: str = ""
    error: str = ""
    build: str = ""
    kind: str = "cpu"
    devices: tuple[str, ...] = ()
    why_unmeasured: str = ""


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


def software_findings(facts: SoftwareFacts, *, asv_runner: str, gpus: tuple[str, ...]) -> Iterator[Finding]:
    """``asv_runner`` is the version that perfci is written for, ``gpus`` what the driver's own tool lists."""
    yield python_finding(facts)
    yield torch_finding(facts.torch, gpus)
    if facts.torch.why_unmeasured:
        yield unmeasured_finding(facts.torch)
    yield asv_finding(facts, asv_runner)
    for plugin in facts.plugins:
        yield plugin_finding(plugin, facts.types)


def python_finding(facts: SoftwareFacts) -> Finding:
    oldest, newest = (".".join(map(str, version)) for version in PYTHONS)
    told = f"{facts.python} at {facts.executable}"
    if not PYTHONS[0] <= version_of(facts.python)[:2] <= PYTHONS[1]:
        advice = (
            f"name another interpreter with [environment] python in perfci.toml; {oldest} to {newest} are supported"
        )
        return problem("Python", told, advice)
    return ok("Python", told)


def git_finding(version: str) -> Finding:
    needed = ".".join(map(str, GIT))
    if not version:
        return problem("git", "there is no git here", f"install git {needed} or newer")
    if version_of(version)[:2] < GIT:
        return problem("git", f"git {version} is too old to read commits safely", f"install git {needed} or newer")
    return ok("git", version)


def torch_finding(torch: TorchFacts, gpus: tuple[str, ...]) -> Finding:
    if torch.error:
        return problem("torch", f"importing torch fails: {torch.error}", "repair or reinstall torch there")
    if not torch.version:
        return warning("torch", "torch is not installed there", "install it, unless nothing measured uses it")
    told = f"{torch.version}, {torch.build} build, {_seen(torch)}"
    if version_of(torch.version)[:2] < TORCH:
        return problem("torch", told, f"install torch {'.'.join(map(str, TORCH))} or newer")
    if gpus and torch.kind == "cpu":
        advice = (
            "install a CUDA build of torch" if torch.build == "CPU" else "compare the driver with torch's CUDA version"
        )
        return problem("torch", f"{told}, although the driver lists {listed(list(gpus))}", advice)
    return ok("torch", told)


def _seen(torch: TorchFacts) -> str:
    return f"sees {listed(list(torch.devices))}" if torch.devices else "sees no accelerator"


def unmeasured_finding(torch: TorchFacts) -> Finding:
    return warning(
        "device",
        f"perfci has not been proven on {torch.kind} devices: {torch.why_unmeasured}",
        "compare a few of its figures with torch.utils.benchmark before you rely on them",
    )


def asv_finding(facts: SoftwareFacts, expected: str) -> Finding:
    if facts.asv_error:
        return problem("asv", f"importing asv_runner fails: {facts.asv_error}", f"install asv_runner=={expected} there")
    told = f"asv_runner {facts.asv_runner} knows {', '.join(facts.types)}"
    if facts.asv_runner != expected:
        advice = f"install asv_runner=={expected} there: timings and versions of benchmarks shift between its releases"
        return warning("asv", told, advice)
    return ok("asv", told)


def plugin_finding(plugin: PluginFacts, registered: tuple[str, ...]) -> Finding:
    """asv says nothing when it passes a plugin over, so its benchmarks would silently not exist."""
    told, module = f"{plugin.name} {plugin.version}", re.sub(r"[-.]+", "_", plugin.name)
    if not plugin.name.startswith("asv_bench"):
        sentence = f"{told} is installed and never discovered: asv looks for names that begin with asv_bench"
        return problem("plugin", sentence, f"have its author spell the distribution {module}, with underscores")
    if plugin.errors:
        sentence = f"{told} does not import, which asv passes over in silence: {plugin.errors[0]}"
        return problem("plugin", sentence, f"make `import {module}` work there, or uninstall {plugin.name}")
    if not plugin.types:
        sentence = f"{told} exports no benchmark type"
        return problem("plugin", sentence, "its modules in benchmarks/ need a list export_as_benchmark")
    missing = [name for name in plugin.types if name not in registered]
    if missing:
        return problem("plugin", f"{told} is there, but asv did not register {listed(missing)}", "reinstall it there")
    return ok("plugin", f"{told} adds {', '.join(plugin.types)}")


def version_of(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: ``2.13.0+cpu`` is (2, 13, 0)."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
