"""Public API for suites: ModelBench, declared metrics, synchronising clocks, exact memory.

Importing this room is cheap: torch is imported by the first function that needs it.
"""

from perfci.bench.accepted_arguments import call_with_accepted
from perfci.bench.memory_use.peak_memory import peak_allocated_bytes, peak_tensor_bytes
from perfci.bench.model_bench import ModelBench
from perfci.bench.multi_metric_benchmark import Bench
from perfci.bench.readings import Absent, Measurement, Reading, exact, informational, metrics, skip_exception
from perfci.bench.timers.timed_blocks import cpu_clock, wall_clock
from perfci.model import Clock, Metric

__all__ = [
    "Absent",
    "Bench",
    "Clock",
    "Measurement",
    "Metric",
    "ModelBench",
    "Reading",
    "call_with_accepted",
    "cpu_clock",
    "exact",
    "informational",
    "metrics",
    "peak_allocated_bytes",
    "peak_tensor_bytes",
    "skip_exception",
    "wall_clock",
]
