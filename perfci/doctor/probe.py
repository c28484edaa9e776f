"""Runs in the measured environment by itself, with nothing of perfci beside it: tell in JSON what is installed there.

asv swallows what goes wrong while it looks for plugins, so each is imported here again and its error kept. What the
device, NVML and the processor's counters give is asked through perfci.bench, as a measuring function would ask.
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
"""How long the GPU is watched while nothing runs."""


def main() -> None:
    sys.path.pop(0)  # the folder of this script, whose modules are none of the environment's
    answer = os.dup(1)
    os.dup2(2, 1)  # whatever an import prints is no answer
    told = {
        "python": sys.version.split()[0],
        "executable": sys.executable,
        **probe_asv(),
        "plugins": list(probe_plugins()),
        "torch": probe_torch(),
        **probe_bench(),
    }
    os.write(answer, json.dumps(told).encode())


def probe_asv() -> dict[str, Any]:
    try:
        types = importlib.import_module("asv_runner.benchmarks").benchmark_types
        version = importlib.metadata.version("asv_runner")
    except Exception as error:
        return {"asv_runner": "", "asv_error": format_error(error), "types": []}
    return {"asv_runner": version, "asv_error": "", "types": [label(cls) for cls in types]}


def probe_plugins() -> Iterator[dict[str, Any]]:
    """Every distribution that was meant for asv, whether its name is spelled as asv wants it or not."""
    seen = set()
    for distribution in importlib.metadata.distributions():
        name = str(distribution.metadata["Name"])
        module = re.sub(r"[-.]+", "_", name)
        if module.lower().startswith("asv_bench") and name not in seen:
            seen.add(name)
            types: list[str] = []
            errors = list(import_plugin(module, types))
            yield {"name": name, "version": distribution.version, "types": types, "errors": errors}


def import_plugin(module: str, types: list[str]) -> Iterator[str]:
    """Import what asv imports of a plugin, add the types it exports, and tell what does not import."""
    try:
        package = importlib.import_module(module)
        folder = Path(str(package.__file__)).parent / "benchmarks"
    except Exception as error:
        yield format_error(error)
        return
    for found in pkgutil.iter_modules([str(folder)]):
        try:
            exporting = importlib.import_module(f"{module}.benchmarks.{found.name}")
        except Exception as error:
            yield f"{found.name}: {format_error(error)}"
            continue
        types += [label(cls) for cls in getattr(exporting, "export_as_benchmark", [])]


def label(cls: type) -> str:
    """``TimeBenchmark`` is ``time``."""
    return cls.__name__.removesuffix("Benchmark").lower()


def probe_torch() -> dict[str, Any]:
    try:
        module = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        return {} if error.name == "torch" else {"error": format_error(error)}
    except Exception as error:
        return {"error": format_error(error)}
    hip, cuda = module.version.hip, module.version.cuda
    return {
        "version": str(module.__version__),
        "build": f"ROCm {hip}" if hip else f"CUDA {cuda}" if cuda else "CPU",
        "devices": list(list_devices(module)),
    }


def list_devices(module: Any) -> Iterator[str]:
    for index in range(module.cuda.device_count()):
        yield str(module.cuda.get_device_name(index))
    other = module.accelerator.current_accelerator(check_available=True)
    if other is not None and other.type != "cuda":
        yield str(other)


def probe_bench() -> dict[str, Any]:
    """What perfci's own measuring tools find here; nothing of it where perfci or torch is not installed."""
    try:
        devices = importlib.import_module("perfci.bench.devices.torch_devices")
        device = devices.this_device()
        validated, status = devices.VALIDATION_STATUS[device.kind]
        seen = watch_idle_gpu()
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


def watch_idle_gpu() -> Any:
    """What a watch over half a second in which we do nothing says: whoever is seen then is somebody else."""
    with importlib.import_module("perfci.bench.devices.device_monitor").monitor_device() as seen:
        time.sleep(WATCH_S)
    return seen


def format_error(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]


if __name__ == "__main__":
    main()
