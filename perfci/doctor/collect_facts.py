"""The eyes of the doctor: ask kernel, driver, measured interpreter, lock and store. No judgement here."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perfci.config import Config
from perfci.doctor.machine_checks import MachineFacts
from perfci.doctor.software_checks import BenchFacts, PluginFacts, SoftwareFacts, TorchFacts
from perfci.doctor.suite_checks import Recorded
from perfci.model import PerfciError
from perfci.runner.locks import machine_lock
from perfci.runner.machine_info import this_machine
from perfci.store import Store, open_store
from perfci.store.engine import address_of, path_of, shown_as
from perfci.store.queries.measurements import runs_of_commit, session_processes, sessions

PROBE = Path(__file__).with_name("probe.py")
PROBE_TIMEOUT_S = 300.0
SESSIONS_LOOKED_AT = 20


def environment(python: str) -> SoftwareFacts:
    """What the measured interpreter has installed, and what perfci's measuring tools find in it."""
    try:
        done = subprocess.run(
            [python, str(PROBE)], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, stdin=subprocess.DEVNULL
        )
        told = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError) as error:
        raise PerfciError(f"the interpreter {python} does not run: {error}") from None
    except ValueError:
        last = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise PerfciError(f"the interpreter {python} does not tell what it has installed: {last[0]}") from None
    return software_facts(told)


def software_facts(told: dict[str, Any]) -> SoftwareFacts:
    """Freeze what the probe wrote."""
    return SoftwareFacts(
        python=told["python"],
        executable=told["executable"],
        torch=TorchFacts(**_frozen(told["torch"])),
        asv_runner=told["asv_runner"],
        asv_error=told["asv_error"],
        types=tuple(told["types"]),
        plugins=tuple(PluginFacts(**_frozen(plugin)) for plugin in told["plugins"]),
        bench=BenchFacts(**_frozen(told["bench"])),
    )


def _frozen(told: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}


def gpus_of_the_driver() -> tuple[str, ...]:
    machine = this_machine()
    return (machine.accelerator,) * machine.accelerators


def git_version() -> str:
    tool = shutil.which("git")
    if tool is None:
        return ""
    told = subprocess.run([tool, "version"], capture_output=True, text=True, timeout=30).stdout.split()
    return told[2] if len(told) > 2 else ""


# ------------------------------------------------------------------ the kernel


def machine(root: Path = Path("/")) -> MachineFacts:
    """Read what Linux shows below ``/proc`` and ``/sys``."""
    quota, stopped = _quota(root)
    return MachineFacts(
        cores=len(os.sched_getaffinity(0)),
        quota_cores=quota,
        stopped_share=stopped,
        memory=_memory(root),
        load=_first_number(root / "proc/loadavg"),
        clock=_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        governors=_governors(root),
        turbo=_turbo(root),
        autogroup=_autogroup(root),
    )


def _autogroup(root: Path) -> bool | None:
    told = _text(root / "proc/sys/kernel/sched_autogroup_enabled")
    return told == "1" if told else None


def _quota(root: Path) -> tuple[float | None, float | None]:
    """The tightest CPU quota of the control groups around this process, and how often it ran out."""
    found: list[tuple[float, float | None]] = []
    for folder in _groups(root, "cpu"):
        quota, _, period = _text(folder / "cpu.max").partition(" ")
        quota = quota or _text(folder / "cpu.cfs_quota_us")
        period = period or _text(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit():
            stat = dict(line.split() for line in _text(folder / "cpu.stat").splitlines())
            periods = int(stat.get("nr_periods", 0))
            stopped = int(stat.get("nr_throttled", 0)) / periods if periods else None
            found.append((int(quota) / int(period), stopped))
    return min(found, default=(None, None), key=lambda one: one[0] or 0.0)


def _memory(root: Path) -> int | None:
    lines = (line.split() for line in _text(root / "proc/meminfo").splitlines())
    free = [int(words[1]) * 1024 for words in lines if words[0] == "MemAvailable:"]
    for folder in _groups(root, "memory"):
        limit = _text(folder / "memory.max") or _text(folder / "memory.limit_in_bytes")
        used = _text(folder / "memory.current") or _text(folder / "memory.usage_in_bytes")
        if limit.isdigit() and used.isdigit():
            free.append(max(0, int(limit) - int(used)))
    return min(free, default=None)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's control group and all above it, of version 2 or 1."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / controllers
        folder = top / path.strip("/")
        yield from (one for one in (folder, *folder.parents) if one.is_relative_to(top))


def _governors(root: Path) -> tuple[str, ...]:
    files = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    return tuple(sorted({_text(file) for file in files} - {""}))


def _turbo(root: Path) -> bool | None:
    cpu = root / "sys/devices/system/cpu"
    off, boost = _text(cpu / "intel_pstate/no_turbo"), _text(cpu / "cpufreq/boost")
    return off == "0" if off else boost == "1" if boost else None


def _first_number(path: Path) -> float | None:
    words = _text(path).split()
    return float(words[0]) if words else None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


# ------------------------------------------------------------------ perfci's own things


def lock_holder(config: Config) -> str:
    """Who measures on this machine right now, in the lock's own words."""
    try:
        with machine_lock(config.lock_path, owner="perfci doctor", wait=False):
            return ""
    except PerfciError as error:
        return str(error)


def database(config: Config) -> tuple[str, bool, str]:
    """How the store is called, whether it exists, and what keeps it from being opened."""
    shown = config.database_url
    try:
        address = address_of(config.database_url)
        shown, path = shown_as(address), path_of(address)
        if path is not None and not path.exists():
            return shown, False, ""
        open_store(config.database_url, create=False).close()
    except PerfciError as error:
        return shown, True, str(error)
    return shown, True, ""


def free_disk(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def recorded(config: Config, suite: str) -> Recorded | None:
    """What the newest session measured of this suite, where the store can be read and has one."""
    with contextlib.suppress(PerfciError), contextlib.closing(open_store(config.database_url, create=False)) as store:
        return _recorded(store, config.project, suite)
    return None


def _recorded(store: Store, project: str, suite: str) -> Recorded | None:
    with store.read() as tx:
        for session in sessions(tx, project)[:SESSIONS_LOOKED_AT]:
            rows = session_processes(tx, session.uid)
            runs = runs_of_commit(tx, project, rows[-1].sha) if rows else []
            if any(run.session_uid == session.uid and run.suite == suite for run in runs):
                versions = {row.series.benchmark.name: row.series.benchmark.version for row in rows}
                return Recorded(versions, f"{session.started_at:%Y-%m-%d}")
    return None


def sources_in(folder: Path) -> dict[str, str]:
    """The source of every module of a suite that asv would import, by the name that benchmarks of it begin with."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or folder.name
        found[module] = path.read_text(errors="replace")
    return found
