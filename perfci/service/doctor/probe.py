"""Runs in the measured environment by itself, with nothing of perfci beside it: tell in JSON what is installed there.

asv swallows what goes wrong while it looks for plugins, so each is imported here again and its error kept. torch is
imported last: it may start a context on a GPU, and NVML has to be asked before that who else uses it.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SLOWED_BY = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""The bits of NVML's clock event reasons that mean less speed; idling and clocks set on purpose do not."""


def main() -> None:
    sys.path.pop(0)  # the folder of this script, whose modules are none of the environment's
    answer = os.dup(1)
    os.dup2(2, 1)  # whatever an import prints is no answer
    told = {
        "python": sys.version.split()[0],
        "executable": sys.executable,
        "nvml": nvml(),
        **asv(),
        "plugins": list(plugins()),
        "torch": torch(),
    }
    os.write(answer, json.dumps(told).encode())


def asv() -> dict[str, Any]:
    try:
        types = importlib.import_module("asv_runner.benchmarks").benchmark_types
        version = importlib.metadata.version("asv_runner")
    except Exception as error:
        return {"asv_runner": "", "asv_error": last_line(error), "types": []}
    return {"asv_runner": version, "asv_error": "", "types": [label(cls) for cls in types]}


def plugins() -> Iterator[dict[str, Any]]:
    """Every distribution that was meant for asv, whether its name is spelled as asv wants it or not."""
    seen = set()
    for distribution in importlib.metadata.distributions():
        name = str(distribution.metadata["Name"])
        module = re.sub(r"[-.]+", "_", name)
        if module.lower().startswith("asv_bench") and name not in seen:
            seen.add(name)
            types: list[str] = []
            errors = list(plugin_errors(module, types))
            yield {"name": name, "version": distribution.version, "types": types, "errors": errors}


def plugin_errors(module: str, types: list[str]) -> Iterator[str]:
    """Import what asv imports of a plugin, add the types it exports, and tell what does not import."""
    try:
        package = importlib.import_module(module)
        folder = Path(str(package.__file__)).parent / "benchmarks"
    except Exception as error:
        yield last_line(error)
        return
    for found in pkgutil.iter_modules([str(folder)]):
        try:
            exporting = importlib.import_module(f"{module}.benchmarks.{found.name}")
        except Exception as error:
            yield f"{found.name}: {last_line(error)}"
            continue
        types += [label(cls) for cls in getattr(exporting, "export_as_benchmark", [])]


def label(cls: type) -> str:
    """``TimeBenchmark`` is ``time``."""
    return cls.__name__.removesuffix("Benchmark").lower()


def torch() -> dict[str, Any]:
    try:
        module = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        return {} if error.name == "torch" else {"error": last_line(error)}
    except Exception as error:
        return {"error": last_line(error)}
    kind, why_unmeasured = device()
    hip, cuda = module.version.hip, module.version.cuda
    return {
        "version": str(module.__version__),
        "build": f"ROCm {hip}" if hip else f"CUDA {cuda}" if cuda else "CPU",
        "kind": kind,
        "devices": [module.cuda.get_device_name(i) for i in range(module.cuda.device_count())] or accelerator(module),
        "why_unmeasured": why_unmeasured,
    }


def device() -> tuple[str, str]:
    """What perfci would measure on, and why nobody should trust it there yet; the CPU where perfci is not installed."""
    try:
        shim = importlib.import_module("perfci.bench.device")
    except ModuleNotFoundError:
        return "cpu", ""
    kind = shim.this_device().kind
    measured, why = shim.MEASURED[kind]
    return kind, "" if measured else why


def accelerator(module: Any) -> list[str]:
    current = module.accelerator.current_accelerator(check_available=True)
    return [str(current)] if current is not None else []


def nvml() -> dict[str, Any]:
    try:
        library = importlib.import_module("pynvml")
        library.nvmlInit()
        gpus = [gpu(library, index) for index in range(library.nvmlDeviceGetCount())]
    except Exception as error:
        return {"error": last_line(error), "gpus": []}
    return {"error": "", "gpus": gpus}


def gpu(library: Any, index: int) -> dict[str, Any]:
    handle = library.nvmlDeviceGetHandleByIndex(index)
    name = library.nvmlDeviceGetName(handle)
    reasons = library.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return {
        "name": name.decode() if isinstance(name, bytes) else name,
        "throttled": [reason for bit, reason in SLOWED_BY.items() if reasons & bit],
        "processes": len(library.nvmlDeviceGetComputeRunningProcesses(handle)),
    }


def last_line(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]


if __name__ == "__main__":
    main()
