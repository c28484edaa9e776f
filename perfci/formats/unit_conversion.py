"""What foreign units and metric names mean: one unit for each quantity, and which way is good."""

from __future__ import annotations

import re
from typing import NamedTuple

from perfci.model import Direction, Metric


class UnitConversion(NamedTuple):
    """A foreign unit in one of ours: its numbers times ``times`` over ``per``, which keeps whole factors exact."""

    unit: str
    multiplier: int = 1
    divisor: int = 1

    def convert(self, value: float) -> float:
        return value * self.multiplier / self.divisor


class KnownMetric(NamedTuple):
    """A metric under the name and unit it has here, and how its numbers get there."""

    metric: Metric
    conversion: UnitConversion


UNIT_CONVERSIONS: dict[str, UnitConversion] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), UnitConversion("seconds")),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), UnitConversion("seconds", 1, 10**3)),
    **dict.fromkeys(
        ("us", "µs", "μs", "usec", "microsecond", "microseconds"), UnitConversion("seconds", 1, 10**6)
    ),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), UnitConversion("seconds", 1, 10**9)),
    **dict.fromkeys(("min", "minute", "minutes"), UnitConversion("seconds", 60)),
    **dict.fromkeys(("b", "byte", "bytes"), UnitConversion("bytes")),
    **dict.fromkeys(("kb", "kilobytes"), UnitConversion("bytes", 10**3)),
    **dict.fromkeys(("mb", "megabytes"), UnitConversion("bytes", 10**6)),
    **dict.fromkeys(("gb", "gigabytes"), UnitConversion("bytes", 10**9)),
    "kib": UnitConversion("bytes", 2**10),
    "mib": UnitConversion("bytes", 2**20),
    "gib": UnitConversion("bytes", 2**30),
    **dict.fromkeys(("count", "counts"), UnitConversion("count")),
    **dict.fromkeys(("%", "percent", "percentage"), UnitConversion("ratio", 1, 100)),
    **dict.fromkeys(("ratio", "x"), UnitConversion("ratio")),
    "instructions": UnitConversion("count"),
    "flop": UnitConversion("flops"),
    "gflop": UnitConversion("flops", 10**9),
    "tflop": UnitConversion("flops", 10**12),
    "j": UnitConversion("joules"),
    "kwh": UnitConversion("joules", 3_600_000),
    "w": UnitConversion("watts"),
    **dict.fromkeys(("tok", "toks", "token", "tokens"), UnitConversion("tokens")),
    **dict.fromkeys(("req", "reqs", "request", "requests"), UnitConversion("requests")),
    **{
        name: UnitConversion(f"{name}s")
        for name in ("sample", "image", "item", "step", "iteration", "op", "call", "row")
    },
    **{
        f"{name}s": UnitConversion(f"{name}s")
        for name in ("sample", "image", "item", "step", "iteration", "op", "call", "row")
    },
}
"""Units in lower case. A megabyte is 10^6 here and a mebibyte 2^20, as the standard has it (IEC 80000-13)."""

UNIT_ALIASES = {
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

SMALLER_IS_BETTER = ("seconds", "bytes", "joules", "watts")
"""Which way is good follows from these units alone: less time, memory and energy, more of anything per second."""

UNIT_SUFFIX_PATTERNS = (
    (re.compile(r"(?P<name>.+?)\s*[(\[](?P<unit>[^()\[\]]+)[)\]]"), None),
    (
        re.compile(r"(.+_)?(?P<what>tok|token|request|sample|image|step|item)s?_?(?:per|/)_?s(?:ec|econd)?"),
        "/s",
    ),
    (re.compile(r"(?P<name>.+)_(?P<unit>ns|us|ms|seconds|secs?|s|bytes|kib|mib|gib|kb|mb|gb)"), None),
)
"""Names that end in their unit: ``median_ttft_ms``, ``load_time(ms)``, ``tokens_per_second``."""

METRIC_RULES: tuple[tuple[str, str, Direction], ...] = (
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
    (
        r"(tokens_per_second|output_throughput|total_token_throughput|token_throughput|max_output_tokens_per_s)",
        "tokens/s",
        "higher",
    ),
    # executorch, torchao, gpt-fast
    (r"tokens?_per_sec(ond)?|tok/s|generate_tok_s", "tokens/s", "higher"),
    (r"memory_bandwidth", "gb/s", "higher"),
    (r"(.*[_-])?tflops", "tflops", "higher"),
    (r"(.*[_-])?gbps", "gb/s", "higher"),
    (r"(.*_)?(loss|perplexity)", "loss", "lower"),
)
"""Metrics by name, where a file says no unit: what these projects' own documentation and code give them."""


def find_conversion(unit: str) -> UnitConversion | None:
    """What a unit is here; nothing where nobody knows it."""
    told = unit.strip().lower()
    told = UNIT_ALIASES.get(told, told)
    if told in UNIT_CONVERSIONS:
        return UNIT_CONVERSIONS[told]
    measure, slash, per = told.partition("/")
    top, bottom = UNIT_CONVERSIONS.get(measure.strip()), UNIT_CONVERSIONS.get(per.strip())
    if not slash or top is None or bottom is None:
        return None
    below = bottom.unit if bottom.unit == "seconds" else bottom.unit.removesuffix("s")
    return UnitConversion(
        f"{top.unit}/{'s' if below == 'seconds' else below}",
        top.multiplier * bottom.divisor,
        top.divisor * bottom.multiplier,
    )


def identify_metric(name: str, unit: str = "", direction: Direction | None = None) -> KnownMetric | None:
    """The metric a foreign name and unit mean; nothing where unit or direction would be a guess."""
    rule = _find_rule(name)
    short, told = (name, unit) if unit or rule else _split_unit(name)
    rule = rule or _find_rule(short)
    told = told or (rule[1] if rule else "")
    scale = find_conversion(told) or (UnitConversion(told) if told and (direction or rule) else None)
    way = direction or (rule[2] if rule else None) or (_default_direction(scale.unit) if scale else None)
    if scale is None or way is None:
        return None
    return KnownMetric(Metric(short.strip(), scale.unit, way), scale)


def unresolved_reason(name: str, unit: str) -> str:
    """Why a metric is kept apart."""
    if unit:
        return f"the direction (lower or higher is better) of {name} in {unit} is unknown"
    return f"the unit of {name} is unknown"


def parse_direction(value: object) -> Direction | None:
    return value if value == "lower" or value == "higher" else None


def _find_rule(name: str) -> tuple[str, str, Direction] | None:
    return next((rule for rule in METRIC_RULES if re.fullmatch(rule[0], name.strip().lower())), None)


def _split_unit(name: str) -> tuple[str, str]:
    """A name without the unit it ends in, and that unit."""
    for pattern, per in UNIT_SUFFIX_PATTERNS:
        found = pattern.fullmatch(name.strip().lower())
        if found and per:
            return name, found["what"] + per
        if found and find_conversion(found["unit"]):
            return name.strip()[: found.end("name")], found["unit"]
    return name, ""


def _default_direction(unit: str) -> Direction | None:
    if unit.endswith("/s"):
        return "higher"
    return "lower" if unit.partition("/")[0] in SMALLER_IS_BETTER else None
