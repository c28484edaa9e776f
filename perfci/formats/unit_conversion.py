"""Convert foreign units: one unit for each quantity."""

from __future__ import annotations

from typing import NamedTuple


class UnitConversion(NamedTuple):
    """Conversion of a foreign unit to ``unit``: values times ``multiplier`` over ``divisor``, both exact."""

    unit: str
    multiplier: int = 1
    divisor: int = 1

    def convert(self, value: float) -> float:
        """Convert a value of the foreign unit to ``unit``."""
        return value * self.multiplier / self.divisor


UNIT_CONVERSIONS: dict[str, UnitConversion] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), UnitConversion("seconds")),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), UnitConversion("seconds", 1, 10**3)),
    # There are two signs for micro: U+00B5, and the Greek letter U+03BC.
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
"""Conversions by unit in lower case. A megabyte is 10^6 bytes, a mebibyte 2^20 (IEC 80000-13)."""

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
"""Words that mean a quotient, and quotients that mean a time (github-action-benchmark's ``ns/iter``)."""


def find_unit_conversion(unit: str) -> UnitConversion | None:
    """Return the conversion of a foreign unit; None if the unit is unknown."""
    name = unit.strip().lower()
    name = UNIT_ALIASES.get(name, name)
    if name in UNIT_CONVERSIONS:
        return UNIT_CONVERSIONS[name]
    numerator, slash, denominator = name.partition("/")
    top, bottom = UNIT_CONVERSIONS.get(numerator.strip()), UNIT_CONVERSIONS.get(denominator.strip())
    if not slash or top is None or bottom is None:
        return None
    per = "s" if bottom.unit == "seconds" else bottom.unit.removesuffix("s")
    return UnitConversion(
        f"{top.unit}/{per}", top.multiplier * bottom.divisor, top.divisor * bottom.multiplier
    )
