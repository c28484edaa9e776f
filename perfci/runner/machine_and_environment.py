"""Hardware of this machine (its class) and the versions found on it (the environment)."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

from perfci.model import Environment, Machine, freeze_named_values


def describe_machine() -> Machine:
    """Describe the hardware that a measurement runs on."""
    names, _ = _query_nvidia_smi()
    return Machine(
        cpu=_cpu_model(),
        cores=len(os.sched_getaffinity(0)),  # a container may use fewer than the machine has
        memory_gb=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        accelerator=names[0] if names else "",
        accelerators=len(names),
    )


def describe_environment(*, python: str, torch: str) -> Environment:
    """Record what may explain a step that no commit made: versions, driver, kernel."""
    _, driver = _query_nvidia_smi()
    seen = {
        "python": python,
        "torch": torch,
        "driver": driver,
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()).strip(),
    }
    return Environment(freeze_named_values({name: value for name, value in seen.items() if value}))


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


def _query_nvidia_smi() -> tuple[list[str], str]:
    """Query nvidia-smi, so that describing the machine starts no CUDA context in this process."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return [], ""
    query = [tool, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        lines = subprocess.run(
            query, capture_output=True, text=True, timeout=30, check=True
        ).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return [], ""
    rows = [[part.strip() for part in line.split(",")] for line in lines if line.strip()]
    return [row[0] for row in rows], rows[0][1] if rows else ""
