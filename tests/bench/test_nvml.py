from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fake_nvml import install_nvml

from perfci.bench.devices import nvml
from perfci.bench.devices.nvml import (
    GpuProcess,
    GpuSamples,
    NvmlUnavailable,
    open_gpu,
    sample_gpu_during_block,
    sample_until_stopped,
)
from tests.support.waiting import has_ended


def test_reports_in_si_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_nvml(tmp_path, monkeypatch)

    gpu = open_gpu("GPU-fake")

    assert (gpu.sm_clock(), gpu.sm_clock_max(), gpu.temperature()) == (1.98e9, 1.98e9, 55.0)
    assert (gpu.power(), gpu.busy_share(), gpu.total_energy()) == (310.0, 0.97, 1.0)


def test_names_the_query_that_nvml_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_nvml(tmp_path, monkeypatch, millijoules=None)

    with pytest.raises(
        NvmlUnavailable, match="NVML answers nvmlDeviceGetTotalEnergyConsumption with: Not Supported"
    ):
        open_gpu("GPU-fake").total_energy()


def test_an_older_gpu_has_no_sm_activity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_nvml(tmp_path, monkeypatch, gpm=0)

    with pytest.raises(NvmlUnavailable, match="SM activity needs a Hopper GPU or newer, or DCGM"):
        open_gpu("GPU-fake").take_sm_activity_sample()


def test_names_processes_where_nvml_permits_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_nvml(tmp_path, monkeypatch, pids="7 8", **{"name of 7": "/usr/bin/python3"})

    assert open_gpu("GPU-fake").processes() == [GpuProcess(7, "python3"), GpuProcess(8, "")]


@pytest.mark.parametrize(
    ("uuid", "answers", "reason"),
    [
        (None, {}, "NVML reads NVIDIA GPUs only, and this device is not one"),
        ("GPU-other", {}, "NVML cannot open GPU-other: Not Supported"),
        ("GPU-fake", {"init": None}, "NVML cannot open GPU-fake: Not Supported"),
    ],
)
def test_explains_why_a_gpu_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uuid: str | None, answers: dict[str, None], reason: str
) -> None:
    install_nvml(tmp_path, monkeypatch, **answers)

    with pytest.raises(NvmlUnavailable, match=reason):
        open_gpu(uuid)


def test_reports_a_missing_nvml_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)

    with pytest.raises(NvmlUnavailable, match="nvidia-ml-py, which is not installed"):
        open_gpu("GPU-fake")


def test_samples_at_once_then_at_intervals_and_once_when_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_nvml(tmp_path, monkeypatch, celsius=[50, 51, 52, 53, 54])
    waits: list[float] = []

    def should_stop(timeout_s: float) -> bool:
        waits.append(timeout_s)
        return len(waits) == 4

    sampled = sample_until_stopped(open_gpu("GPU-fake"), 0.05, should_stop)

    assert sampled.samples["temperature"] == [50, 51, 52, 53, 54]
    assert (waits, sampled.samples["sm_active"]) == ([0.05] * 4, [0.615])


def test_a_refused_query_is_not_repeated() -> None:
    requests: list[int] = []

    def refuse() -> float:
        requests.append(1)
        raise NvmlUnavailable("no")

    sampled = GpuSamples()
    for _ in range(3):
        sampled.add_sample("power", refuse)

    assert (len(requests), sampled.samples, sampled.missing_reasons) == (1, {}, {"power": "no"})


def test_samples_from_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_nvml(tmp_path, monkeypatch, percent_busy=None)

    with sample_gpu_during_block("GPU-fake", 0.01) as sampled:
        pass

    assert set(sampled.samples["sm_clock"]) == {1.98e9}
    assert len(sampled.samples["sm_clock"]) >= 2
    assert sampled.missing_reasons == {
        "busy_share": "NVML answers nvmlDeviceGetUtilizationRates with: Not Supported"
    }


def test_reports_why_the_sampler_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_nvml(tmp_path, monkeypatch)
    (tmp_path / "pynvml.py").write_text("raise RuntimeError('a broken driver')")

    with sample_gpu_during_block("GPU-fake", 0.01) as sampled:
        pass

    assert sampled.samples == {}
    assert sampled.missing_reasons["power"] == "the NVML sampler failed: RuntimeError: a broken driver"


def test_reports_that_the_sampler_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_nvml(tmp_path, monkeypatch)

    with sample_gpu_during_block("GPU-fake", 0.01) as sampled:
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        (sampler,) = (pid for pid in children if "nvml.py" in Path(f"/proc/{pid}/cmdline").read_text())
        os.kill(int(sampler), signal.SIGKILL)

    assert sampled.missing_reasons["sm_active"] == "the NVML sampler failed: it was killed"


def test_no_sampler_outlives_a_parent_that_was_killed_even_while_a_fork_holds_its_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_nvml(tmp_path, monkeypatch)
    code = (
        "import os, sys, time; from perfci.bench.devices.nvml import sample_gpu_during_block\n"
        "with sample_gpu_during_block('GPU-fake', 0.01):\n"
        "    holder = os.fork()\n"
        "    if holder == 0: time.sleep(600); os._exit(0)\n"
        "    children = open(f'/proc/{os.getpid()}/task/{os.getpid()}/children').read().split()\n"
        "    print(holder, *[pid for pid in children if pid != str(holder)], flush=True)\n"
        "    time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    holder, sampler = map(int, parent.stdout.readline().split())

    parent.kill()
    parent.wait()
    gone = has_ended(sampler)
    os.kill(holder, signal.SIGKILL)
    parent.stdout.close()

    assert gone


def test_the_sampler_process_imports_nothing_of_perfci() -> None:
    imported = "import sys, runpy; sys.argv = ['x']; runpy.run_path(sys.path.pop(), run_name='x')"
    code = f"import sys; sys.path.append({nvml.__file__!r}); {imported}; print('perfci' in sys.modules)"

    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert output.strip() == "False"
