"""Check that the machine measures steadily: facts from the kernel in, findings out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from perfci.doctor.findings import (
    DoctorFinding,
    format_first_names,
    ok_finding,
    problem_finding,
    warning_finding,
)
from perfci.number_format import format_count, format_percent

GIB = 2**30
"""Bytes of a gibibyte."""

BUSY_SHARE = 0.25
"""Load of other programs above this share of the cores disturbs most pairs."""

MIN_MEMORY = 2 * GIB
"""Bytes of available memory below which a benchmark may swap."""

MIN_DISK = 2 * GIB
"""Bytes of free disk that hold a checkout, its build and a torch compile cache."""

SLOW_CLOCKS = ("acpi_pm", "hpet", "jiffies", "pit")
"""Clock sources that are read through the kernel and a device, which takes a microsecond."""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """Facts of the machine, as Linux reports them; None or empty where it does not."""

    cores: int
    quota_cores: float | None = None
    stopped_share: float | None = None  # of the scheduling periods so far in which the quota ran out
    memory: int | None = None  # bytes that can still be used
    load: float | None = None  # runnable tasks, averaged over the last minute
    clock: str = ""
    governors: tuple[str, ...] = ()
    turbo: bool | None = None
    autogroup: bool | None = None  # whether the scheduler shares the cores out by session


def check_machine(facts: MachineFacts) -> Iterator[DoctorFinding]:
    """Check cores, load, memory, clocks and the scheduler."""
    yield check_cores(facts)
    yield check_load(facts)
    yield check_memory(facts.memory)
    yield check_clock_source(facts.clock)
    yield check_governor(facts.governors)
    yield check_turbo(facts.turbo)
    if facts.autogroup is not None:
        yield check_autogroup(autogroup=facts.autogroup)


def check_cores(facts: MachineFacts) -> DoctorFinding:
    """Warn of a CPU quota below the number of cores, and of a single core."""
    cores = format_count(facts.cores, "core")
    if facts.quota_cores is not None and facts.quota_cores < facts.cores:
        throttled = ""
        if facts.stopped_share:
            throttled = f", which stopped it in {format_percent(facts.stopped_share)} of the periods so far"
        return warning_finding(
            "cores",
            f"{cores}, but the control group allows only the time of {facts.quota_cores:g}{throttled}",
            "give the container whole cores (--cpuset-cpus) instead of a share of their time (--cpus)",
        )
    if facts.cores == 1:
        return warning_finding(
            "cores", "one core, which everything else runs on too", "measure with two cores or more"
        )
    return ok_finding("cores", f"{cores}, no quota below that")


def check_load(facts: MachineFacts) -> DoctorFinding:
    """Warn of other programs that use the cores."""
    if facts.load is None:
        return ok_finding("load", "not reported by the kernel")
    sentence = f"{facts.load:.2f} tasks over the last minute on {format_count(facts.cores, 'core')}"
    if facts.load > BUSY_SHARE * facts.cores:
        return warning_finding(
            "load", sentence, "end what else runs here, or wait a minute if it has just ended"
        )
    return ok_finding("load", sentence)


def check_memory(available: int | None) -> DoctorFinding:
    """Warn of little available memory, in bytes."""
    if available is None:
        return ok_finding("memory", "not reported by the kernel")
    sentence = f"{available / GIB:.1f} GiB can still be used"
    if available < MIN_MEMORY:
        return warning_finding(
            "memory", sentence, "free some: a process that swaps is measured as slow, or killed"
        )
    return ok_finding("memory", sentence)


def check_clock_source(source: str) -> DoctorFinding:
    """Warn of a clock source that is slow to read."""
    if not source:
        return ok_finding("clock", "the kernel does not name its clock source")
    if source in SLOW_CLOCKS:
        advice = "make the kernel use tsc (see /sys/devices/system/clocksource)"
        return warning_finding("clock", f"{source}, which takes a microsecond to read", advice)
    return ok_finding("clock", source)


def check_governor(governors: tuple[str, ...]) -> DoctorFinding:
    """Warn of a frequency governor that follows the load."""
    if not governors:
        return ok_finding("governor", "not visible here, as usual in virtual machines")
    if governors == ("performance",):
        return ok_finding("governor", "performance on every core")
    advice = "sudo cpupower frequency-set -g performance"
    return warning_finding(
        "governor", f"{format_first_names(list(governors))}: the clock follows the load", advice
    )


def check_turbo(turbo: bool | None) -> DoctorFinding:
    """Warn of turbo clocks, which depend on temperature."""
    if turbo is None:
        return ok_finding("turbo", "not visible here, as usual in virtual machines")
    if turbo:
        advice = (
            "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, "
            "or 0 > /sys/devices/system/cpu/cpufreq/boost"
        )
        return warning_finding("turbo", "on: the clock depends on temperature and on the other cores", advice)
    return ok_finding("turbo", "off")


def check_autogroup(*, autogroup: bool) -> DoctorFinding:
    """Warn of autogrouping: nice values then count only within one session, see sched(7)."""
    if not autogroup:
        return ok_finding("niceness", "what is started with nice stands back, in whichever session")
    return warning_finding(
        "niceness",
        "the kernel shares the cores out by session (kernel.sched_autogroup_enabled is 1): "
        "work that somebody starts with nice in another session takes as much from what is measured "
        "as if it were not nice",
        "sudo sysctl kernel.sched_autogroup_enabled=0, or let nobody else work here while you measure",
    )


def check_machine_lock(holder: str) -> DoctorFinding:
    """Warn of another measurement on this machine."""
    if holder:
        return warning_finding(
            "lock", f"this machine is being measured: {holder}", "wait until that has ended"
        )
    return ok_finding("lock", "nobody else measures on this machine")


def check_database(display_url: str, exists: bool, problem_text: str) -> DoctorFinding:
    """Report a database that cannot be opened."""
    if problem_text:
        return problem_finding(
            "database", problem_text.rstrip("."), "see `perfci db --help`, or name another store with --db"
        )
    if not exists:
        return ok_finding("database", f"{display_url} does not exist yet: the first `perfci run` makes it")
    return ok_finding("database", f"{display_url} has the current schema")


def check_disk(free: int) -> DoctorFinding:
    """Report little free disk, in bytes."""
    sentence = f"{free / GIB:.1f} GiB are free below .perfci"
    if free < MIN_DISK:
        return problem_finding("disk", sentence, "free some: checkouts, builds and results go there")
    return ok_finding("disk", sentence)
