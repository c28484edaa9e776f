"""Numbers as people read them: one unit per view, four significant digits, percentages with a sign."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MINUS = "\N{MINUS SIGN}"

STEPS = {
    "seconds": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "bytes": ((1024.0**4, "TiB"), (1024.0**3, "GiB"), (1024.0**2, "MiB"), (1024.0, "KiB"), (1.0, "B")),
    "FLOP": ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1.0, "FLOP")),
    "hertz": ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz")),
    "watts": ((1e3, "kW"), (1.0, "W"), (1e-3, "mW")),
    "joules": ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ")),
    "celsius": ((1.0, "°C"),),
}
"""The unit of a metric, or what stands before its slash: ``seconds/token`` reads as ``ms/token``."""

SHARES = frozenset(
    {
        "active", "attainment", "busy", "efficiency", "fragmentation", "mfu", "padding", "share", "sparsity", "stall",
        "utilisation",
    }
)  # fmt: skip
"""A ratio whose name ends in one of these words is a part of a whole and reads as a percentage; any other ratio (a
speedup, a growth, a real-time factor) is a plain number."""

PERCENT = "%"
PERCENT_DIGITS = 3
THOUSANDS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))
COUNTS_WRITTEN_OUT_BELOW = 1e7


@dataclass(frozen=True, slots=True)
class Scale:
    """One unit for all numbers of a view: a raw value divided by ``factor`` is read in ``symbol``."""

    factor: float
    symbol: str

    def number(self, value: float) -> str:
        return number(value / self.factor)

    def text(self, value: float) -> str:
        """A measured value keeps its four digits, so that neighbours line up: ``12.40 ms`` over ``14.69 ms``."""
        if self.symbol == PERCENT:
            return f"{measured(value / self.factor, PERCENT_DIGITS)} %"
        counted_exactly = self.factor == 1 and self.symbol != "s" and value == round(value)
        return f"{(number if counted_exactly else measured)(value / self.factor)} {self.symbol}".rstrip()


def scale_of(values: Iterable[float], unit: str, name: str = "") -> Scale:
    """Choose the unit in which the largest of the values reads best; the metric's ``name`` tells shares from ratios."""
    largest = max((abs(value) for value in values), default=0.0)
    measure, slash, per = unit.partition("/")
    if measure in STEPS:
        factor, symbol = _step(largest, STEPS[measure])
        return Scale(factor, f"{symbol}{slash}{per}")
    if unit == "ratio":
        return Scale(0.01, PERCENT) if is_share(name) else Scale(1.0, "")
    if largest < COUNTS_WRITTEN_OUT_BELOW:
        return Scale(1.0, counted(unit))
    factor, prefix = next(step for step in THOUSANDS if largest >= step[0])
    return Scale(factor, f"{prefix} {counted(unit)}".rstrip())


def is_share(name: str) -> bool:
    """``data_stall``, ``prefill_share`` and ``mfu`` are parts of a whole; ``speedup_vs_eager`` is none."""
    return name.rpartition("_")[2] in SHARES


def counted(unit: str) -> str:
    """A count needs no unit behind it, and asv's placeholder for none is none."""
    return "" if unit in {"count", "unit", "1", ""} else unit


def quantity(value: float, unit: str, name: str = "") -> str:
    """Write one value in the unit that suits it: ``14.71 ms``, ``1.5 GiB``, ``1,024``, ``19.4 %``."""
    return scale_of([value], unit, name).text(value)


def number(value: float) -> str:
    """Write up to four significant digits, thousands in groups; whole numbers as they are."""
    text = measured(value)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def measured(value: float, digits: int = 4) -> str:
    """Write four significant digits, zeros included; a whole number that needs more keeps them."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else f"{MINUS if value < 0 else ''}∞"
    whole = value == int(value) and abs(value) < COUNTS_WRITTEN_OUT_BELOW
    rounded = value if whole else float(f"{value:.{digits}g}")
    if rounded != 0 and not 1e-4 <= abs(rounded) < 1e9:
        return f"{rounded:.{digits - 1}e}".replace("-", MINUS)
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded)))) if rounded else 0
    return f"{rounded:,.{decimals}f}".replace("-", MINUS)


def percent(change: float) -> str:
    """Write the size of a change: ``18.3 %``; small ones with a second digit, large ones with none."""
    size = abs(change) * 100
    if size >= 100:
        return f"{size:,.0f} %"
    return f"{size:.2f} %" if 0 < size < 0.0995 else f"{size:.1f} %"


def signed_percent(change: float) -> str:
    """Write a change with its direction: ``+18.3 %``, ``−4.0 %``."""
    size = percent(change)
    if not any(digit in size for digit in "123456789"):
        return size
    return f"{MINUS if change < 0 else '+'}{size}"


def counting(count: int, thing: str, things: str = "") -> str:
    """``1 pair``, ``10 pairs``, ``1,200 commits``."""
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def age(seconds: float) -> str:
    """Say how long ago something was, as roughly as a person would."""
    return f"{lasting(seconds)} ago" if seconds >= 60 else "just now"


def lasting(seconds: float) -> str:
    """``5 days``, ``3 hours``: a span as roughly as a person would say it."""
    steps = ((86400 * 365, "year"), (86400 * 30, "month"), (86400, "day"), (3600, "hour"), (60, "minute"))
    for length, unit in steps:
        if seconds >= length:
            return counting(int(seconds // length), unit)
    return "less than a minute"


def _step(largest: float, steps: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """The largest unit that leaves at least one before the point; the plain one for nothing at all."""
    if not largest:
        return next(step for step in steps if step[0] == 1.0)
    return next((step for step in steps if largest >= step[0]), steps[-1])
