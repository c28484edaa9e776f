"""NVML as a script: installed as ``pynvml`` for this process and its children, it answers from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

LIBRARY = """
import json
from pathlib import Path
from types import SimpleNamespace

NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0
NVML_GPM_METRICS_GET_VERSION, NVML_GPM_METRIC_SM_UTIL = 1, 2
asked = {}

class NVMLError(Exception):
    pass

class c_nvmlGpmMetricsGet_t:
    def __init__(self):
        self.metrics = [SimpleNamespace(nvmlReturn=0)]

def answer(question):
    answers = json.loads(Path(__file__).with_name("answers.json").read_text())
    if question not in answers:
        raise NVMLError("Not Supported")
    value = answers[question]
    if isinstance(value, list):
        asked[question] = asked.get(question, -1) + 1
        value = value[min(asked[question], len(value) - 1)]
    return value

def nvmlInit():
    answer("init")

def nvmlDeviceGetHandleByUUID(uuid):
    return answer(uuid)

def nvmlDeviceGetClockInfo(handle, clock):
    return answer("sm_mhz")

def nvmlDeviceGetMaxClockInfo(handle, clock):
    return answer("sm_mhz_max")

def nvmlDeviceGetTemperature(handle, sensor):
    return answer("celsius")

def nvmlDeviceGetPowerUsage(handle):
    return answer("milliwatts")

def nvmlDeviceGetUtilizationRates(handle):
    return SimpleNamespace(gpu=answer("percent_busy"))

def nvmlDeviceGetTotalEnergyConsumption(handle):
    return answer("millijoules")

def nvmlDeviceGetCurrentClocksEventReasons(handle):
    return answer("reasons")

def nvmlDeviceGetComputeRunningProcesses(handle):
    return [SimpleNamespace(pid=pid) for pid in answer("pids").split()]

def nvmlSystemGetProcessName(pid):
    return answer(f"name of {pid}")

def nvmlGpmQueryDeviceSupport(handle):
    return SimpleNamespace(isSupportedDevice=answer("gpm"))

def nvmlGpmSampleAlloc():
    return object()

def nvmlGpmSampleFree(sample):
    pass

def nvmlGpmSampleGet(handle, sample):
    pass

def nvmlGpmMetricsGet(wanted):
    wanted.metrics[0].value = answer("percent_sm")
"""

HEALTHY = {
    "init": 1,
    "GPU-fake": 1,
    "sm_mhz": 1980,
    "sm_mhz_max": 1980,
    "celsius": 55,
    "milliwatts": 310_000,
    "percent_busy": 97,
    "millijoules": 1000,
    "reasons": 0,
    "pids": "",
    "gpm": 1,
    "percent_sm": 61.5,
}
"""What an H100 says while it runs alone. A list answers one question after the other; its last value
stays.
"""


def install_nvml(folder: Path, monkeypatch: pytest.MonkeyPatch, **answers: Any) -> None:
    """Answer as a healthy GPU does, but for what is given; an answer of None is "Not Supported"."""
    answered = {name: value for name, value in {**HEALTHY, **answers}.items() if value is not None}
    (folder / "pynvml.py").write_text(LIBRARY)
    (folder / "answers.json").write_text(json.dumps(answered))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(__import__("sys").modules, "pynvml", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(folder))
