"""What foreign units and metric names mean: one unit for each quantity, and which way is good."""

from __future__ import annotations

import re
from typing import NamedTuple

from perfci.model import Direction, Metric


class Scale(NamedTuple):
    """A foreign unit in one of ours: its numbers times ``times`` over ``per``, which keeps whole factors exact."""

    unit: str
    times: int = 1
    per: int = 1

    def of(self, value: float) -> float:
        return value * self.times / self.per


class Known(NamedTuple):
    """A metric under the name and unit it has here, and how its numbers get there."""

    metric: Metric
    scale: Scale


MEASURES: dict[str, Scale] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), Scale("seconds")),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), Scale("seconds", 1, 10**3)),
    **dict.fromkeys(("us", "µs", "μs", "usec", "microsecond", "microseconds"), Scale("seconds", 1, 10**6)),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), Scale("seconds", 1, 10**9)),
    **dict.fromkeys(("min", "minute", "minutes"), Scale("seconds", 60)),
    **dict.fromkeys(("b", "byte", "bytes"), Scale("bytes")),
    **dict.fromkeys(("kb", "kilobytes"), Scale("bytes", 10**3)),
    **dict.fromkeys(("mb", "megabytes"), Scale("bytes", 10**6)),
    **dict.fromkeys(("gb", "gigabytes"), Scale("bytes", 10**9)),
    "kib": Scale("bytes", 2**10),
    "mib": Scale("bytes", 2**20),
    "gib": Scale("bytes", 2**30),
    **dict.fromkeys(("count", "counts"), Scale("count")),
    **dict.fromkeys(("%", "percent", "percentage"), Scale("ratio", 1, 100)),
    **dict.fromkeys(("ratio", "x"), Scale("ratio")),
    "instructions": Scale("count"),
    "flop": Scale("flops"),
    "gflop": Scale("flops", 10**9),
    "tflop": Scale("flops", 10**12),
    "j": Scale("joules"),
    "kwh": Scale("joules", 3_600_000),
    "w": Scale("watts"),
    **dict.fromkeys(("tok", "toks", "token", "tokens"), Scale("tokens")),
    **dict.fromkeys(("req", "reqs", "request", "requests"), Scale("requests")),
    **{name: Scale(f"{name}s") for name in ("sample", "image", "item", "step", "iteration", "op", "call", "row")},
    **{f"{name}s": Scale(f"{name}s") for name in ("sample", "image", "item", "step", "iteration", "op", "call", "row")},
}
"""Units in lower case. A megabyte is 10^6 here and a mebibyte 2^20, as the standard has it (IEC 80000-13)."""

ALIASES = {
    "tflops": "tflop/s",
    "gflops": "gflop/s",
    "tflop/s": "tflop/s",
    "hz": "iterations/s",
    "fps": "images/s",
    "qps": "requests/s",
    "rps": "requests/s",
    "tps": "tokens/s",
    "iter/sec": "iterations/s",
    "ns/iter": "ns",
}
"""Units written as one word that are a quotient, and the other way round (github-action-benchmark's ``ns/iter``)."""

SMALLER, BIGGER = ("seconds", "bytes", "joules", "watts"), ("/seconds",)
"""Which way is good follows from these units alone: less time, memory and energy, more of anything per second."""

SUFFIXES = (
    (re.compile(r"(?P<name>.+?)\s*[(\[](?P<unit>[^()\[\]]+)[)\]]"), None),
    (re.compile(r"(.+_)?(?P<what>tok|token|request|sample|image|step|item)s?_?(?:per|/)_?s(?:ec|econd)?"), "/s"),
    (re.compile(r"(?P<name>.+)_(?P<unit>ns|us|ms|seconds|secs?|s|bytes|kib|mib|gib|kb|mb|gb)"), None),
)
"""Names that end in their unit: ``median_ttft_ms``, ``load_time(ms)``, ``tokens_per_second``."""

NAMES: tuple[tuple[str, str, Direction], ...] = (
    # PyTorch's pr_time_benchmarks and inductor dashboards (pytorch/benchmarks/dynamo); memory is in 10^9 bytes there
    (r"(compile_time_)?instruction_count", "count", "lower"),
    (r"compilation_(latency|time)|abs_latency_s|total_compile_time", "s", "lower"),
    (r"abs_latency", "ms", "lower"),
    (r"(dynamo|eager)_peak_mem", "gb", "lower"),
    (r"(.*_)?speedup(_.*)?", "ratio", "higher"),
    (r"(.*_)?compression_ratio", "ratio", "higher"),
    (r"(.*_)?(accuracy|pass_?rate|mfu|flops_utilization)", "ratio", "higher"),
    # vLLM: request and token rates, and the latency of a whole batch
    (r"latency|elapsed_time|duration|e2el|ttft|tpot|itl", "s", "lower"),
    (r"(requests_per_second|request_throughput|request_goodput|goodput)", "requests/s", "higher"),
    (r"(tokens_per_second|output_throughput|total_token_throughput|token_throughput|max_output_tokens_per_s)",
     "tokens/s", "higher"),
    # executorch, torchao, gpt-fast
    (r"tokens?_per_sec(ond)?|tok/s|generate_tok_s", "tokens/s", "higher"),
    (r"memory_bandwidth", "gb/s", "higher"),
    (r"(.*[_-])?tflops", "tflops", "higher"),
    (r"(.*[_-])?gbps", "gb/s", "higher"),
    (r"(.*_)?(loss|perplexity)", "loss", "lower"),
)  # fmt: skip
"""Metrics by name, where a file says no unit: what these projects' own documentation and code give them."""


def scale_of(unit: str) -> Scale | None:
    """What a unit is here; nothing where nobody knows it."""
    told = unit.strip().lower()
    told = ALIASES.get(told, told)
    if told in MEASURES:
        return MEASURES[told]
    measure, slash, per = told.partition("/")
    top, bottom = MEASURES.get(measure.strip()), MEASURES.get(per.strip())
    if not slash or top is None or bottom is None:
        return None
    below = bottom.unit if bottom.unit == "seconds" else bottom.unit.removesuffix("s")
    return Scale(f"{top.unit}/{'s' if below == 'seconds' else below}", top.times * bottom.per, top.per * bottom.times)


def known(name: str, unit: str = "", direction: Direction | None = None) -> Known | None:
    """The metric a foreign name and unit mean; nothing where unit or direction would be a guess."""
    rule = _rule(name)
    short, told = (name, unit) if unit or rule else _unit_in(name)
    rule = rule or _rule(short)
    told = told or (rule[1] if rule else "")
    scale = scale_of(told) or (Scale(told) if told and (direction or rule) else None)
    way = direction or (rule[2] if rule else None) or (_way(scale.unit) if scale else None)
    if scale is None or way is None:
        return None
    return Known(Metric(short.strip(), scale.unit, way), scale)


def unknown(name: str, unit: str) -> str:
    """Why a metric is kept apart."""
    if unit:
        return f"which way is good is not known of {name} in {unit}"
    return f"the unit of {name} is not known"


def direction_named(told: object) -> Direction | None:
    return told if told == "lower" or told == "higher" else None


def _rule(name: str) -> tuple[str, str, Direction] | None:
    return next((rule for rule in NAMES if re.fullmatch(rule[0], name.strip().lower())), None)


def _unit_in(name: str) -> tuple[str, str]:
    """A name without the unit it ends in, and that unit."""
    for pattern, per in SUFFIXES:
        found = pattern.fullmatch(name.strip().lower())
        if found and per:
            return name, found["what"] + per
        if found and scale_of(found["unit"]):
            return name.strip()[: found.end("name")], found["unit"]
    return name, ""


def _way(unit: str) -> Direction | None:
    if unit.endswith("/s"):
        return "higher"
    return "lower" if unit.partition("/")[0] in SMALLER else None
