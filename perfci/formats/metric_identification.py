"""Identify the metric of a foreign name: its name and unit here, and the direction that is better."""

from __future__ import annotations

import re
from typing import NamedTuple

from perfci.formats.unit_conversion import UnitConversion, find_unit_conversion
from perfci.model import Direction, Metric

SMALLER_IS_BETTER = ("seconds", "bytes", "joules", "watts")
"""Units whose direction is ``lower``: less time, memory, energy and power is better; rates are ``higher``."""

UNIT_SUFFIX_PATTERNS = (
    (re.compile(r"(?P<name>.+?)\s*[(\[](?P<unit>[^()\[\]]+)[)\]]"), None),
    (
        re.compile(
            r"(.+_)?(?P<quantity>tok|token|request|sample|image|step|item)s?_?(?:per|/)_?s(?:ec|econd)?"
        ),
        "/s",
    ),
    (re.compile(r"(?P<name>.+)_(?P<unit>ns|us|ms|seconds|secs?|s|bytes|kib|mib|gib|kb|mb|gb)"), None),
)
"""Patterns of names that end in their unit: ``median_ttft_ms``, ``load_time(ms)``, ``tokens_per_second``."""

METRIC_RULES: tuple[tuple[str, str, Direction], ...] = (
    # PyTorch's pr_time_benchmarks and inductor dashboards (pytorch/benchmarks/dynamo); memory in 10^9 bytes
    (r"(compile_time_)?instruction_count", "count", "lower"),
    (r"compilation_(latency|time)|abs_latency_s|total_compile_time", "s", "lower"),
    (r"abs_latency", "ms", "lower"),
    (r"(dynamo|eager)_peak_mem", "gb", "lower"),
    (r"(.*_)?speedup(_.*)?", "ratio", "higher"),
    (r"(.*_)?compression_ratio", "ratio", "higher"),
    (r"(.*_)?(accuracy|pass_?rate|mfu|hfu|flops_utilization)", "ratio", "higher"),
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
"""Name pattern, unit and direction of metrics in files without units, from these projects' docs and code."""


class KnownMetric(NamedTuple):
    """A metric with its name and unit in perfci, and the conversion of its values."""

    metric: Metric
    conversion: UnitConversion


def identify_metric(name: str, unit: str = "", direction: Direction | None = None) -> KnownMetric | None:
    """Return the metric of a foreign name and unit; None where unit or direction would be a guess."""
    rule = _find_rule(name)
    short, unit_text = (name, unit) if unit or rule else _split_unit(name)
    rule = rule or _find_rule(short)
    rule_unit, rule_direction = (rule[1], rule[2]) if rule else ("", None)
    unit_text = unit_text or rule_unit
    conversion = find_unit_conversion(unit_text)
    if conversion is None and unit_text and (direction or rule):
        conversion = UnitConversion(unit_text)  # the direction is known, so the unit may be any text
    if conversion is None:
        return None
    better = direction or rule_direction or _default_direction(conversion.unit)
    if better is None:
        return None
    return KnownMetric(Metric(short.strip(), conversion.unit, better), conversion)


def explain_unresolved_unit(name: str, unit: str) -> str:
    """Explain why a metric has an unresolved unit."""
    if unit:
        return f"the direction (lower or higher is better) of {name} in {unit} is unknown"
    return f"the unit of {name} is unknown"


def parse_direction(value: object) -> Direction | None:
    """Return ``lower`` or ``higher``, or None for any other value."""
    return value if value == "lower" or value == "higher" else None


def _find_rule(name: str) -> tuple[str, str, Direction] | None:
    return next((rule for rule in METRIC_RULES if re.fullmatch(rule[0], name.strip().lower())), None)


def _split_unit(name: str) -> tuple[str, str]:
    """Split a name that ends in its unit into the name before it and the unit."""
    for pattern, per in UNIT_SUFFIX_PATTERNS:
        match = pattern.fullmatch(name.strip().lower())
        if match and per:
            return name, match["quantity"] + per
        if match and find_unit_conversion(match["unit"]):
            return name.strip()[: match.end("name")], match["unit"]
    return name, ""


def _default_direction(unit: str) -> Direction | None:
    if unit.endswith("/s"):
        return "higher"
    return "lower" if unit.partition("/")[0] in SMALLER_IS_BETTER else None
