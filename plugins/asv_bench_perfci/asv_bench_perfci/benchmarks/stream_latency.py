"""``gen_ttft_*``, ``gen_tpot_*``, ``gen_e2el_*``: latencies of a function that streams its output.

The definitions are those of ``perfci.bench.streams.request_metrics``, which are vLLM's. They are read on the
host's clock, where a user sees them, with the device synchronised once per chunk; so they are measured on a
CPU as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from asv_bench_perfci.benchmark_base import PerfciBenchmark, bind_parameters

if TYPE_CHECKING:
    from perfci.bench.streams.request_metrics import RequestTrace


class StreamBenchmark(PerfciBenchmark):
    """One sample per generation; the function returns an iterator over chunks, one token each.

    A ``tokens_of(chunk)`` method says otherwise. asv's ``repeat`` is the number of generations,
    ``warmup_time`` the seconds of generations before them, one at least.
    """

    def run(self, *params: Any) -> dict[str, Any]:
        from perfci.bench.timers.timed_blocks import gc_disabled

        generate = bind_parameters(self.func, params)
        least, most, seconds = self.repeat_limits(5, 20, 5.0)
        warmup_s = max(0.0, float(self.attribute("warmup_time", -1)))
        collect_samples(
            lambda: self.sample_latency(generate), lambda count, spent: count >= 1 and spent >= warmup_s
        )
        with gc_disabled() as collect:
            samples = collect_samples(
                lambda: self.sample_latency(generate),
                lambda count, spent: count >= most or (count >= least and spent >= seconds),
                between_samples=collect,
            )
        return {"samples": samples, "number": 1}

    def sample_latency(self, generate: Callable[[], Any]) -> float:
        """The latency of one generation; ``metric`` names its formula."""
        from perfci.bench.streams import request_metrics

        formula = {"ttft": request_metrics.ttft, "tpot": request_metrics.tpot, "e2el": request_metrics.e2el}[
            self.metric
        ]
        value = formula(record_trace(generate, self.attribute("tokens_of", None) or (lambda chunk: 1)))
        if value is None:
            raise ValueError(f"{self.name} came in one chunk: time per token needs at least two")
        return value


class TtftBenchmark(StreamBenchmark):
    """Seconds from the call to the first token."""

    name_regex = re.compile(r"^gen_ttft_.+$")
    type = metric = "ttft"


class TpotBenchmark(StreamBenchmark):
    """Seconds per token after the first."""

    name_regex = re.compile(r"^gen_tpot_.+$")
    type = metric = "tpot"


class E2elBenchmark(StreamBenchmark):
    """Seconds from the call to the end of the stream."""

    name_regex = re.compile(r"^gen_e2el_.+$")
    type = metric = "e2el"


def record_trace(generate: Callable[[], Any], tokens_of: Callable[[Any], int]) -> RequestTrace:
    """Run one generation and note when each of its chunks was there, the device's queue empty."""
    from perfci.bench.devices.torch_devices import this_device
    from perfci.bench.streams.request_metrics import RequestTrace

    device = this_device()
    device.synchronize()
    arrived: list[tuple[float, Any]] = []
    sent = perf_counter()
    for chunk in generate():
        device.synchronize()
        arrived.append((perf_counter(), chunk))
    done = perf_counter()
    return RequestTrace(sent, tuple((time, tokens_of(chunk)) for time, chunk in arrived), done)


def collect_samples(
    take_sample: Callable[[], float],
    has_enough: Callable[[int, float], bool],
    between_samples: Callable[[], object] = lambda: None,
) -> list[float]:
    """Sample until ``enough(samples so far, seconds spent)``."""
    samples: list[float] = []
    begin = perf_counter()
    while not has_enough(len(samples), perf_counter() - begin):
        between_samples()
        samples.append(take_sample())
    return samples


export_as_benchmark = [TtftBenchmark, TpotBenchmark, E2elBenchmark]
