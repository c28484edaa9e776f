"""Write as JSON what the measured environment has installed.

Run there as a script, without the rest of perfci.

asv swallows errors while it discovers plugins, so each is imported here again to keep its error. The
device, NVML and the processor's counters are read through perfci.bench, as a measuring function would read
them.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import pkgutil
import re
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WATCH_S = 0.5
"""Seconds for which the GPU is monitored while nothing runs."""


def main() -> None:
    """Probe everything and write one JSON object to standard output."""
    sys.path.pop(0)  # the folder of this script, whose modules do not belong to the environment
    output = os.dup(1)
    os.dup2(2, 1)  # what an import prints goes to standard error
    facts = {
        "python": sys.version.split()[0],
        "executable": sys.executable,
        **probe_asv_runner(),
        "plugins": list(probe_asv_plugins()),
        "torch": probe_torch(),
        **probe_bench_readings(),
    }
    os.write(output, json.dumps(facts).encode())


def probe_asv_runner() -> dict[str, Any]:
    """The version of asv_runner and the benchmark types it registered."""
    try:
        types = importlib.import_module("asv_runner.benchmarks").benchmark_types
        version = importlib.metadata.version("asv_runner")
    except Exception as error:
        return {"asv_runner": "", "asv_error": format_error(error), "types": []}
    return {"asv_runner": version, "asv_error": "", "types": [asv_type_name(cls) for cls in types]}


def probe_asv_plugins() -> Iterator[dict[str, Any]]:
    """Every distribution meant for asv, also one whose name is not spelled as asv requires."""
    seen = set()
    for distribution in importlib.metadata.distributions():
        name = str(distribution.metadata["Name"])
        module = re.sub(r"[-.]+", "_", name)
        if module.lower().startswith("asv_bench") and name not in seen:
            seen.add(name)
            types: list[str] = []
            errors = list(iter_plugin_import_errors(module, types))
            yield {"name": name, "version": distribution.version, "types": types, "errors": errors}


def iter_plugin_import_errors(module: str, types: list[str]) -> Iterator[str]:
    """Import what asv imports of a plugin, add the types it exports, and yield the errors."""
    try:
        package = importlib.import_module(module)
        folder = Path(str(package.__file__)).parent / "benchmarks"
    except Exception as error:
        yield format_error(error)
        return
    for submodule in pkgutil.iter_modules([str(folder)]):
        try:
            exporting = importlib.import_module(f"{module}.benchmarks.{submodule.name}")
        except Exception as error:
            yield f"{submodule.name}: {format_error(error)}"
            continue
        types += [asv_type_name(cls) for cls in getattr(exporting, "export_as_benchmark", [])]


def asv_type_name(cls: type) -> str:
    """The name of a benchmark type: ``time`` for ``TimeBenchmark``."""
    return cls.__name__.removesuffix("Benchmark").lower()


def probe_torch() -> dict[str, Any]:
    """The version, build and devices of torch; empty where it is not installed."""
    try:
        module = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        return {} if error.name == "torch" else {"error": format_error(error)}
    except Exception as error:
        return {"error": format_error(error)}
    hip, cuda = module.version.hip, module.version.cuda
    build = "CPU"
    if hip:
        build = f"ROCm {hip}"
    elif cuda:
        build = f"CUDA {cuda}"
    return {
        "version": str(module.__version__),
        "build": build,
        "devices": list(list_torch_devices(module)),
    }


def list_torch_devices(module: Any) -> Iterator[str]:
    """The names of the devices that torch sees."""
    for index in range(module.cuda.device_count()):
        yield str(module.cuda.get_device_name(index))
    other = module.accelerator.current_accelerator(check_available=True)
    if other is not None and other.type != "cuda":
        yield str(other)


def probe_bench_readings() -> dict[str, Any]:
    """What perfci.bench can read here; its import error where perfci or torch is not installed."""
    try:
        devices = importlib.import_module("perfci.bench.devices.torch_devices")
        device = devices.this_device()
        validated, status = devices.VALIDATION_STATUS[device.kind]
        seen = monitor_idle_gpu()
        counted = importlib.import_module("perfci.bench.call_counts.instruction_counter").count_instructions(
            lambda: None
        )
    except Exception as error:
        return {"bench": {"error": format_error(error)}}
    power = seen.readings["power"]
    return {
        "bench": {
            "kind": device.kind,
            "unverified_reason": "" if validated else status,
            "nvml_error": getattr(power, "reason", ""),
            "gpu_flags": list(seen.flags),
            "counter_error": getattr(counted, "reason", ""),
        }
    }


def monitor_idle_gpu() -> Any:
    """Monitor the GPU while this process leaves it idle: any use of it is another program's."""
    with importlib.import_module("perfci.bench.devices.device_monitor").monitor_device() as seen:
        time.sleep(WATCH_S)
    return seen


def format_error(error: BaseException) -> str:
    """The last line of an error, with its type."""
    return "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]


if __name__ == "__main__":
    main()
