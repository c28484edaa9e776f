"""Collect the facts of the doctor from kernel, driver, measured interpreter, lock and store."""

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
from perfci.doctor.suite_checks import RecordedSuite
from perfci.model import PerfciError
from perfci.runner.locks import machine_lock
from perfci.runner.machine_and_environment import describe_machine
from perfci.store import Store, open_store
from perfci.store.open_database import format_address, parse_database_url, sqlite_file_of_address
from perfci.store.queries.measured_samples import load_session_processes
from perfci.store.queries.runs_and_sessions import load_runs_of_commit, load_sessions

PROBE = Path(__file__).with_name("environment_probe.py")
"""The script that the measured interpreter runs."""

PROBE_TIMEOUT_S = 300.0
"""Seconds for the probe: importing torch can take minutes from a cold disk."""

MAX_SESSIONS = 20
"""Newest sessions that are searched for one of the suite."""


def probe_environment(python: str) -> SoftwareFacts:
    """Probe what the measured interpreter has installed, and what perfci.bench can read in it."""
    try:
        done = subprocess.run(
            [python, str(PROBE)],
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
        probed = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError) as error:
        raise PerfciError(f"the interpreter {python} does not run: {error}") from None
    except ValueError:
        last = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise PerfciError(f"the interpreter {python} did not report its packages: {last[0]}") from None
    return parse_software_facts(probed)


def parse_software_facts(probed: dict[str, Any]) -> SoftwareFacts:
    """Build the facts from the JSON of the probe."""
    return SoftwareFacts(
        python=probed["python"],
        executable=probed["executable"],
        torch=TorchFacts(**_freeze_lists(probed["torch"])),
        asv_runner=probed["asv_runner"],
        asv_error=probed["asv_error"],
        types=tuple(probed["types"]),
        plugins=tuple(PluginFacts(**_freeze_lists(plugin)) for plugin in probed["plugins"]),
        bench=BenchFacts(**_freeze_lists(probed["bench"])),
    )


def _freeze_lists(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def list_driver_gpus() -> tuple[str, ...]:
    """The name of every GPU that the driver's own tool lists."""
    machine = describe_machine()
    return (machine.accelerator,) * machine.accelerators


def read_git_version() -> str:
    """The version of git, or nothing where it is not installed."""
    tool = shutil.which("git")
    if tool is None:
        return ""
    words = subprocess.run([tool, "version"], capture_output=True, text=True, timeout=30).stdout.split()
    return words[2] if len(words) > 2 else ""


def read_machine_facts(root: Path = Path("/")) -> MachineFacts:
    """Read the facts that Linux shows below ``/proc`` and ``/sys``."""
    quota, stopped = _read_quota(root)
    load_averages = _read_text(root / "proc/loadavg").split()
    autogroup = _read_text(root / "proc/sys/kernel/sched_autogroup_enabled")
    governor_files = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    governors = {_read_text(file) for file in governor_files} - {""}
    return MachineFacts(
        cores=len(os.sched_getaffinity(0)),
        quota_cores=quota,
        stopped_share=stopped,
        memory=_read_memory(root),
        load=float(load_averages[0]) if load_averages else None,  # of the last minute, see proc_loadavg(5)
        clock=_read_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        governors=tuple(sorted(governors)),
        turbo=_read_turbo(root),
        autogroup=autogroup == "1" if autogroup else None,
    )


def _read_quota(root: Path) -> tuple[float | None, float | None]:
    """The tightest CPU quota in cores of the control groups around this process, and how often it ran out."""
    quotas: list[tuple[float, float | None]] = []
    for folder in _list_cgroup_folders(root, "cpu"):
        quota, _, period = _read_text(folder / "cpu.max").partition(" ")  # "max 100000" without a limit
        # The files of control groups version 1, whose quota is -1 without a limit.
        quota = quota or _read_text(folder / "cpu.cfs_quota_us")
        period = period or _read_text(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit():
            stat = dict(line.split() for line in _read_text(folder / "cpu.stat").splitlines())
            periods = int(stat.get("nr_periods", 0))
            stopped = int(stat.get("nr_throttled", 0)) / periods if periods else None
            quotas.append((int(quota) / int(period), stopped))
    return min(quotas, default=(None, None), key=lambda item: item[0] or 0.0)


def _read_memory(root: Path) -> int | None:
    """Bytes available to this process, within the limits of its control groups."""
    lines = (line.split() for line in _read_text(root / "proc/meminfo").splitlines())
    free = [int(words[1]) * 1024 for words in lines if words[0] == "MemAvailable:"]
    for folder in _list_cgroup_folders(root, "memory"):
        limit = _read_text(folder / "memory.max") or _read_text(folder / "memory.limit_in_bytes")
        used = _read_text(folder / "memory.current") or _read_text(folder / "memory.usage_in_bytes")
        if limit.isdigit() and used.isdigit():
            free.append(max(0, int(limit) - int(used)))
    return min(free, default=None)


def _list_cgroup_folders(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's control group and all above it, of version 2 or 1."""
    for line in _read_text(root / "proc/self/cgroup").splitlines():
        # cgroups(7): version 2 has one line without controllers, version 1 a line and a mount for each set.
        _, controllers, group = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / controllers
        folder = top / group.strip("/")
        yield from (path for path in (folder, *folder.parents) if path.is_relative_to(top))


def _read_turbo(root: Path) -> bool | None:
    cpu = root / "sys/devices/system/cpu"
    # Intel's driver has a switch that turns turbo off, acpi-cpufreq one that allows it.
    off, boost = _read_text(cpu / "intel_pstate/no_turbo"), _read_text(cpu / "cpufreq/boost")
    if off:
        return off == "0"
    return boost == "1" if boost else None


def _read_text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def describe_lock_holder(config: Config) -> str:
    """The description of the measurement that holds the machine lock; empty where none does."""
    try:
        with machine_lock(config.lock_path, owner="perfci doctor", wait=False):
            return ""
    except PerfciError as error:
        return str(error)


def probe_database(config: Config) -> tuple[str, bool, str]:
    """The display URL of the store, whether it exists, and why it cannot be opened."""
    shown = config.database_url
    try:
        address = parse_database_url(config.database_url)
        shown, path = format_address(address), sqlite_file_of_address(address)
        if path is not None and not path.exists():
            return shown, False, ""
        open_store(config.database_url, create=False).close()
    except PerfciError as error:
        return shown, True, str(error)
    return shown, True, ""


def read_free_disk_bytes(folder: Path) -> int:
    """Free bytes on the disk of a folder."""
    return shutil.disk_usage(folder).free


def load_newest_recorded_suite(config: Config, suite: str) -> RecordedSuite | None:
    """The benchmarks of the newest session of this suite.

    None without one, or where the store cannot be read.
    """
    with (
        contextlib.suppress(PerfciError),
        contextlib.closing(open_store(config.database_url, create=False)) as store,
    ):
        return _load_recorded_suite(store, config.project, suite)
    return None


def _load_recorded_suite(store: Store, project: str, suite: str) -> RecordedSuite | None:
    with store.read() as tx:
        for session in load_sessions(tx, project)[:MAX_SESSIONS]:
            rows = load_session_processes(tx, session.uid)
            runs = load_runs_of_commit(tx, project, rows[-1].sha) if rows else []
            if any(run.session_uid == session.uid and run.suite == suite for run in runs):
                versions = {row.series.benchmark.name: row.series.benchmark.version for row in rows}
                return RecordedSuite(versions, f"{session.started_at:%Y-%m-%d}")
    return None


def read_suite_sources(folder: Path) -> dict[str, str]:
    """The source of every module that asv would import, by the module name its benchmarks begin with."""
    sources = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or folder.name
        sources[module] = path.read_text(errors="replace")
    return sources
