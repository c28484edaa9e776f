"""Numbers as people read them: one unit per view, four significant digits, percentages with a sign."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

MINUS = "\N{MINUS SIGN}"

STEPS = {
    "seconds": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "bytes": ((1024.0**4, "TiB"), (1024.0**3, "GiB"), (1024.0**2, "MiB"), (1024.0, "KiB"), (1.0, "B")),
}
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
        counted_exactly = self.factor == 1 and self.symbol != "s" and value == round(value)
        return f"{(number if counted_exactly else measured)(value / self.factor)} {self.symbol}".rstrip()


def scale_of(values: Iterable[float], unit: str) -> Scale:
    """Choose the unit in which the largest of the values reads best."""
    largest = max((abs(value) for value in values), default=0.0)
    if unit in STEPS:
        steps = STEPS[unit]
        factor, symbol = next((step for step in steps if largest >= step[0]), steps[-1] if largest else steps[0])
        return Scale(factor, symbol)
    if largest < COUNTS_WRITTEN_OUT_BELOW:
        return Scale(1.0, counted(unit))
    factor, prefix = next(step for step in THOUSANDS if largest >= step[0])
    return Scale(factor, f"{prefix} {counted(unit)}".rstrip())


def counted(unit: str) -> str:
    """A count needs no unit behind it, and asv's placeholder for none is none."""
    return "" if unit in {"count", "unit", "1", ""} else unit


def quantity(value: float, unit: str) -> str:
    """Write one value in the unit that suits it: ``14.71 ms``, ``1.5 GiB``, ``1,024``."""
    return scale_of([value], unit).text(value)


def number(value: float) -> str:
    """Write up to four significant digits, thousands in groups; whole numbers as they are."""
    text = measured(value)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def measured(value: float) -> str:
    """Write four significant digits, zeros included; a whole number that needs more keeps them."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else f"{MINUS if value < 0 else ''}∞"
    rounded = value if value == int(value) and abs(value) < COUNTS_WRITTEN_OUT_BELOW else float(f"{value:.4g}")
    if rounded != 0 and not 1e-4 <= abs(rounded) < 1e9:
        return f"{rounded:.3e}".replace("-", MINUS)
    decimals = max(0, 3 - math.floor(math.log10(abs(rounded)))) if rounded else 0
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
    steps = ((86400 * 365, "year"), (86400 * 30, "month"), (86400, "day"), (3600, "hour"), (60, "minute"))
    for length, unit in steps:
        if seconds >= length:
            return f"{counting(int(seconds // length), unit)} ago"
    return "just now"
