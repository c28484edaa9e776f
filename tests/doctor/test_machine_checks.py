"""What the doctor says of the machine, fact by fact and word by word, and where it reads the facts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perfci.doctor import collect_facts
from perfci.doctor.findings import CheckLevel, DoctorFinding, ok_finding, problem_finding, warning_finding
from perfci.doctor.machine_checks import (
    GIB,
    MachineFacts,
    check_autogroup,
    check_clock_source,
    check_cores,
    check_database,
    check_disk,
    check_governor,
    check_load,
    check_machine,
    check_machine_lock,
    check_memory,
    check_turbo,
)

QUIET = MachineFacts(
    cores=16, memory=64 * GIB, load=0.5, clock="tsc", governors=("performance",), turbo=False
)


def test_a_quiet_machine_has_only_ok_findings() -> None:
    findings = list(check_machine(QUIET))

    assert [finding.subject for finding in findings] == [
        "cores",
        "load",
        "memory",
        "clock",
        "governor",
        "turbo",
    ]
    assert {finding.level for finding in findings} == {CheckLevel.OK}


@pytest.mark.parametrize(("autogroup", "subjects"), [(None, []), (False, ["niceness"]), (True, ["niceness"])])
def test_skips_niceness_where_the_kernel_has_no_autogroup(
    autogroup: bool | None, subjects: list[str]
) -> None:
    findings = list(check_machine(replace(QUIET, autogroup=autogroup)))

    assert [finding.subject for finding in findings[6:]] == subjects


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (QUIET, ok_finding("cores", "16 cores, no quota below that")),
        (
            replace(QUIET, cores=4, quota_cores=1.5, stopped_share=0.034),
            warning_finding(
                "cores",
                "4 cores, but the control group allows only the time of 1.5, which stopped it in 3.4 % "
                "of the periods "
                "so far",
                "give the container whole cores (--cpuset-cpus) instead of a share of their time (--cpus)",
            ),
        ),
        (
            replace(QUIET, cores=4, quota_cores=2.0),
            warning_finding(
                "cores",
                "4 cores, but the control group allows only the time of 2",
                "give the container whole cores (--cpuset-cpus) instead of a share of their time (--cpus)",
            ),
        ),
        (
            replace(QUIET, cores=1),
            warning_finding(
                "cores", "one core, which everything else runs on too", "measure with two cores or more"
            ),
        ),
    ],
)
def test_cores_belong_to_the_measurement(facts: MachineFacts, expected: DoctorFinding) -> None:
    assert check_cores(facts) == expected


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (3.99, ok_finding("load", "3.99 tasks over the last minute on 16 cores")),
        (
            4.01,
            warning_finding(
                "load",
                "4.01 tasks over the last minute on 16 cores",
                "end what else runs here, or wait a minute if it has just ended",
            ),
        ),
        (None, ok_finding("load", "not reported by the kernel")),
    ],
)
def test_a_quarter_of_the_cores_may_be_busy(load: float | None, expected: DoctorFinding) -> None:
    assert check_load(replace(QUIET, load=load)) == expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (check_memory(4 * GIB), ok_finding("memory", "4.0 GiB can still be used")),
        (
            check_memory(GIB),
            warning_finding(
                "memory",
                "1.0 GiB can still be used",
                "free some: a process that swaps is measured as slow, or killed",
            ),
        ),
        (check_memory(None), ok_finding("memory", "not reported by the kernel")),
        (check_clock_source("tsc"), ok_finding("clock", "tsc")),
        (
            check_clock_source("hpet"),
            warning_finding(
                "clock",
                "hpet, which takes a microsecond to read",
                "make the kernel use tsc (see /sys/devices/system/clocksource)",
            ),
        ),
        (check_clock_source(""), ok_finding("clock", "the kernel does not name its clock source")),
        (check_governor(("performance",)), ok_finding("governor", "performance on every core")),
        (check_governor(()), ok_finding("governor", "not visible here, as usual in virtual machines")),
        (
            check_governor(("performance", "powersave")),
            warning_finding(
                "governor",
                "performance, powersave: the clock follows the load",
                "sudo cpupower frequency-set -g performance",
            ),
        ),
        (check_turbo(False), ok_finding("turbo", "off")),
        (check_turbo(None), ok_finding("turbo", "not visible here, as usual in virtual machines")),
        (
            check_turbo(True),
            warning_finding(
                "turbo",
                "on: the clock depends on temperature and on the other cores",
                "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or 0 > "
                "/sys/devices/system/cpu/cpufreq/boost",
            ),
        ),
        (
            check_autogroup(autogroup=False),
            ok_finding("niceness", "what is started with nice stands back, in whichever session"),
        ),
        (
            check_autogroup(autogroup=True),
            warning_finding(
                "niceness",
                "the kernel shares the cores out by session (kernel.sched_autogroup_enabled is 1): "
                "work that somebody "
                "starts with nice in another session takes as much from what is measured as if it "
                "were not nice",
                "sudo sysctl kernel.sched_autogroup_enabled=0, or let nobody else work here while "
                "you measure",
            ),
        ),
        (check_machine_lock(""), ok_finding("lock", "nobody else measures on this machine")),
        (
            check_machine_lock("perfci run in /src (process 7)"),
            warning_finding(
                "lock",
                "this machine is being measured: perfci run in /src (process 7)",
                "wait until that has ended",
            ),
        ),
        (check_database("perfci.db", True, ""), ok_finding("database", "perfci.db has the current schema")),
        (
            check_database("perfci.db", False, ""),
            ok_finding("database", "perfci.db does not exist yet: the first `perfci run` makes it"),
        ),
        (
            check_database("perfci.db", True, "The database perfci.db is read-only."),
            problem_finding(
                "database",
                "The database perfci.db is read-only",
                "see `perfci db --help`, or name another store with --db",
            ),
        ),
        (check_disk(3 * GIB), ok_finding("disk", "3.0 GiB are free below .perfci")),
        (
            check_disk(GIB),
            problem_finding(
                "disk", "1.0 GiB are free below .perfci", "free some: checkouts, builds and results go there"
            ),
        ),
    ],
)
def test_describes_findings_in_plain_words(result: DoctorFinding, expected: DoctorFinding) -> None:
    assert result == expected


# ------------------------------------------------------------------ where the facts are read


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_reads_the_kernel_of_a_bare_machine(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/loadavg": "1.25 0.80 0.40 2/512 4711\n",
            "proc/meminfo": "MemTotal: 100 kB\nMemAvailable: 64 kB\n",
            "proc/self/cgroup": "0::/\n",
            "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
            "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave\n",
            "sys/devices/system/cpu/intel_pstate/no_turbo": "0\n",
            "proc/sys/kernel/sched_autogroup_enabled": "1\n",
        },
    )

    facts = collect_facts.read_machine_facts(tmp_path)

    expected = MachineFacts(
        facts.cores,
        memory=65536,
        load=1.25,
        clock="tsc",
        governors=("powersave",),
        turbo=True,
        autogroup=True,
    )
    assert facts == expected


def test_takes_the_tightest_limit_of_nested_control_groups(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/meminfo": "MemAvailable: 4096 kB\n",
            "proc/self/cgroup": "0::/pod/job\n",
            "sys/fs/cgroup/pod/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/pod/cpu.stat": "usage_usec 9\nnr_periods 200\nnr_throttled 50\n",
            "sys/fs/cgroup/pod/job/cpu.max": "max 100000\n",
            "sys/fs/cgroup/pod/memory.max": "1048576\n",
            "sys/fs/cgroup/pod/memory.current": "548576\n",
        },
    )

    facts = collect_facts.read_machine_facts(tmp_path)

    assert (facts.quota_cores, facts.stopped_share, facts.memory) == (1.5, 0.25, 500_000)


def test_reads_control_groups_of_the_first_version(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/box\n3:cpu,cpuacct:/box\n2:cpuset:/\n",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "3000\n",
            "sys/fs/cgroup/memory/box/memory.usage_in_bytes": "1000\n",
            "sys/devices/system/cpu/cpufreq/boost": "0\n",
        },
    )

    facts = collect_facts.read_machine_facts(tmp_path)

    assert (facts.quota_cores, facts.stopped_share, facts.memory, facts.turbo) == (0.5, None, 2000, False)


def test_leaves_facts_empty_where_the_kernel_reports_nothing(tmp_path: Path) -> None:
    facts = collect_facts.read_machine_facts(tmp_path)

    assert facts == MachineFacts(facts.cores)
