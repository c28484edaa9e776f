"""What the doctor says of the measured environment, fact by fact and word by word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfci.doctor.findings import DoctorFinding, ok_finding, problem_finding, warning_finding
from perfci.doctor.software_checks import (
    BenchFacts,
    PluginFacts,
    SoftwareFacts,
    TorchFacts,
    check_asv_plugin,
    check_asv_runner,
    check_bench_readings,
    check_git,
    check_python,
    check_software,
    check_torch,
    parse_version,
)

CUDA = TorchFacts("2.13.0", build="CUDA 12.8", devices=("NVIDIA H100", "NVIDIA H100"))
HERE = SoftwareFacts("3.11.7", "/venv/bin/python", CUDA, asv_runner="0.3.2", types=("time", "track"))


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.39.5", ok_finding("git", "2.39.5")),
        ("", problem_finding("git", "there is no git here", "install git 2.25 or newer")),
        (
            "2.20.1",
            problem_finding(
                "git", "git 2.20.1 is too old to read commits safely", "install git 2.25 or newer"
            ),
        ),
    ],
)
def test_git_is_installed_and_new_enough(version: str, expected: DoctorFinding) -> None:
    assert check_git(version) == expected


def test_names_the_python_that_measures() -> None:
    assert check_python(HERE) == ok_finding("Python", "3.11.7 at /venv/bin/python")


@pytest.mark.parametrize("version", ["3.10.2", "3.14.0"])
def test_refuses_a_python_that_is_not_supported(version: str) -> None:
    assert check_python(replace(HERE, python=version)) == problem_finding(
        "Python",
        f"{version} at /venv/bin/python",
        "name another interpreter with [environment] python in perfci.toml; 3.11 to 3.13 are supported",
    )


@pytest.mark.parametrize(
    ("torch", "gpus", "expected"),
    [
        (
            CUDA,
            ("NVIDIA H100",),
            ok_finding("torch", "2.13.0, CUDA 12.8 build, sees NVIDIA H100, NVIDIA H100"),
        ),
        (
            TorchFacts("2.13.0+cpu", build="CPU"),
            (),
            ok_finding("torch", "2.13.0+cpu, CPU build, sees no accelerator"),
        ),
        (
            TorchFacts("2.13.0+cpu", build="CPU"),
            ("NVIDIA H100",),
            problem_finding(
                "torch",
                "2.13.0+cpu, CPU build, sees no accelerator, although the driver lists NVIDIA H100",
                "install a CUDA build of torch",
            ),
        ),
        (
            TorchFacts("2.13.0", build="CUDA 13.0"),
            ("NVIDIA H100",),
            problem_finding(
                "torch",
                "2.13.0, CUDA 13.0 build, sees no accelerator, although the driver lists NVIDIA H100",
                "compare the driver with torch's CUDA version",
            ),
        ),
        (
            TorchFacts("2.4.1", build="CPU"),
            (),
            problem_finding("torch", "2.4.1, CPU build, sees no accelerator", "install torch 2.9 or newer"),
        ),
        (
            TorchFacts(),
            (),
            warning_finding(
                "torch", "torch is not installed there", "install it, unless nothing measured uses it"
            ),
        ),
        (
            TorchFacts(error="OSError: libcudart.so.12: cannot open shared object file"),
            (),
            problem_finding(
                "torch",
                "importing torch fails: OSError: libcudart.so.12: cannot open shared object file",
                "repair or reinstall torch there",
            ),
        ),
    ],
)
def test_torch_sees_what_the_machine_has(
    torch: TorchFacts, gpus: tuple[str, ...], expected: DoctorFinding
) -> None:
    assert check_torch(torch, gpus) == expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (HERE, ok_finding("asv", "asv_runner 0.3.2 knows time, track")),
        (
            replace(HERE, asv_runner="0.2.5"),
            warning_finding(
                "asv",
                "asv_runner 0.2.5 knows time, track",
                "install asv_runner==0.3.2 there: timings and versions of benchmarks shift between "
                "its releases",
            ),
        ),
        (
            replace(HERE, asv_runner="", asv_error="ModuleNotFoundError: No module named 'asv_runner'"),
            problem_finding(
                "asv",
                "importing asv_runner fails: ModuleNotFoundError: No module named 'asv_runner'",
                "install asv_runner==0.3.2 there",
            ),
        ),
    ],
)
def test_asv_runner_is_the_one_perfci_is_written_for(facts: SoftwareFacts, expected: DoctorFinding) -> None:
    assert check_asv_runner(facts, "0.3.2") == expected


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        (
            PluginFacts("asv_bench_perfci", "0.1.0", ("gputime", "ttft")),
            ok_finding("plugin", "asv_bench_perfci 0.1.0 adds gputime, ttft"),
        ),
        (
            PluginFacts("asv-bench-memray", "0.1.2", ("ray",)),
            problem_finding(
                "plugin",
                "asv-bench-memray 0.1.2 is installed and never discovered: asv looks for names that "
                "begin with "
                "asv_bench",
                "have its author spell the distribution asv_bench_memray, with underscores",
            ),
        ),
        (
            PluginFacts(
                "asv_bench_memray", "0.1.2", (), ("ray: ModuleNotFoundError: No module named 'memray'",)
            ),
            problem_finding(
                "plugin",
                "asv_bench_memray 0.1.2 does not import, so its benchmarks do not exist: ray: "
                "ModuleNotFoundError: "
                "No module named 'memray'",
                "make `import asv_bench_memray` work there, or uninstall asv_bench_memray",
            ),
        ),
        (
            PluginFacts("asv_bench_empty", "1"),
            problem_finding(
                "plugin",
                "asv_bench_empty 1 exports no benchmark type",
                "its modules in benchmarks/ need a list export_as_benchmark",
            ),
        ),
        (
            PluginFacts("asv_bench_late", "1", ("ray",)),
            problem_finding(
                "plugin", "asv_bench_late 1 is there, but asv did not register ray", "reinstall it there"
            ),
        ),
    ],
)
def test_finds_plugins_that_asv_does_not_load(plugin: PluginFacts, expected: DoctorFinding) -> None:
    assert check_asv_plugin(plugin, ("time", "gputime", "ttft")) == expected


NO_COUNTER = "this processor, or the virtual machine around it, offers no counter of instructions"
COUNTER = ok_finding("instructions", "perf events are allowed: instructions can be counted")


@pytest.mark.parametrize(
    ("bench", "expected"),
    [
        (BenchFacts(), [COUNTER]),
        (
            BenchFacts(counter_error=NO_COUNTER),
            [
                warning_finding(
                    "instructions",
                    NO_COUNTER,
                    "judge by the other counts; where it is a setting: sysctl kernel.perf_event_paranoid=2",
                )
            ],
        ),
        (
            BenchFacts(error="ModuleNotFoundError: No module named 'perfci'"),
            [
                warning_finding(
                    "perfci.bench",
                    "it cannot be used there: ModuleNotFoundError: No module named 'perfci'",
                    "install perfci there (docs/publishing.md), unless no benchmark uses perfci.bench",
                )
            ],
        ),
        (
            BenchFacts(kind="xpu", unverified_reason="written from torch's documentation"),
            [
                warning_finding(
                    "perfci.bench",
                    "not verified on xpu devices: written from torch's documentation",
                    "compare a few of its figures with torch.utils.benchmark before you rely on them",
                ),
                COUNTER,
            ],
        ),
        (
            BenchFacts(kind="cuda", nvml_error="NVML is read through nvidia-ml-py, which is not installed"),
            [
                warning_finding(
                    "GPU",
                    "NVML does not answer: NVML is read through nvidia-ml-py, which is not installed",
                    "pip install nvidia-ml-py there: clocks, power, throttling and other users of "
                    "the GPU are read "
                    "by it",
                ),
                COUNTER,
            ],
        ),
        (
            BenchFacts(kind="cuda", gpu_flags=("power_capped: in 3 of 9 samples",)),
            [ok_finding("GPU", "NVML answers; it is not slowed down, and nobody else uses it"), COUNTER],
        ),
        (
            BenchFacts(
                kind="cuda",
                gpu_flags=("throttled: HW thermal slowdown in 9 of 9 samples", "shared_gpu: pid 4711 python"),
            ),
            [
                problem_finding(
                    "GPU",
                    "slowed down although it is idle: HW thermal slowdown in 9 of 9 samples",
                    "cool it, raise its power limit, or lock its clocks with nvidia-smi -lgc",
                ),
                problem_finding(
                    "GPU",
                    "somebody else uses it: pid 4711 python",
                    "end that program: nothing measured beside it is judged",
                ),
                COUNTER,
            ],
        ),
    ],
)
def test_reports_what_measuring_functions_can_read(bench: BenchFacts, expected: list[DoctorFinding]) -> None:
    assert list(check_bench_readings(bench)) == expected


def test_lists_all_findings_in_the_order_of_repair() -> None:
    facts = replace(HERE, plugins=(PluginFacts("asv_bench_x", "1", ("time",)),))

    subjects = [finding.subject for finding in check_software(facts, asv_runner="0.3.2", gpus=())]

    assert subjects == ["Python", "torch", "asv", "plugin", "instructions"]


@pytest.mark.parametrize(
    ("text", "version"), [("2.13.0+cpu", (2, 13, 0)), ("2.39.5.windows.1", (2, 39, 5)), ("HEAD", ())]
)
def test_reads_the_numbers_of_a_version(text: str, version: tuple[int, ...]) -> None:
    assert parse_version(text) == version
