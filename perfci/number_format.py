"""Format numbers for people: one unit per view, four significant digits, signed percentages."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

MINUS = "\N{MINUS SIGN}"

UNIT_STEPS = {
    "seconds": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "bytes": ((1024.0**4, "TiB"), (1024.0**3, "GiB"), (1024.0**2, "MiB"), (1024.0, "KiB"), (1.0, "B")),
    "FLOP": ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1.0, "FLOP")),
    "hertz": ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz")),
    "watts": ((1e3, "kW"), (1.0, "W"), (1e-3, "mW")),
    "joules": ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ")),
    "celsius": ((1.0, "°C"),),
}
"""Display units by base unit; in ``seconds/token`` the part before the slash is scaled (``ms/token``)."""

SHARE_SUFFIXES = frozenset(
    {
        "active",
        "attainment",
        "busy",
        "efficiency",
        "fragmentation",
        "hfu",
        "mfu",
        "padding",
        "share",
        "sparsity",
        "stall",
        "utilisation",
    }
)
"""Last words of the names of ratios that are shares of a whole, shown as percentages.

Any other ratio (a speedup, a growth, a real-time factor) is shown as a plain number."""

PERCENT = "%"
PERCENT_DIGITS = 3
LARGE_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))
MAX_WRITTEN_OUT_COUNT = 1e7


@dataclass(frozen=True, slots=True)
class DisplayScale:
    """One unit for all numbers of a view: a raw value divided by ``factor`` is in ``symbol``."""

    factor: float
    symbol: str

    def format_without_unit(self, value: float) -> str:
        """Format a raw value without its unit."""
        return format_number(value / self.factor)

    def format_with_unit(self, value: float) -> str:
        """Format a raw value with its unit.

        Measured values keep four significant digits, zeros included, so that neighbours align (``12.40
        ms``).
        """
        if self.symbol == PERCENT:
            return f"{format_significant_digits(value / self.factor, PERCENT_DIGITS)} %"
        counted_exactly = self.factor == 1 and self.symbol != "s" and value == round(value)
        format_digits = format_number if counted_exactly else format_significant_digits
        return f"{format_digits(value / self.factor)} {self.symbol}".rstrip()


def choose_display_scale(values: Iterable[float], unit: str, name: str = "") -> DisplayScale:
    """Choose the unit in which the largest value reads best; ``name`` separates shares from other ratios."""
    largest = max((abs(value) for value in values), default=0.0)
    measure, slash, per = unit.partition("/")
    if measure in UNIT_STEPS:
        steps = UNIT_STEPS[measure]
        # The largest unit in which the value is at least one; the base unit for zero.
        reached = [step for step in steps if (largest or 1.0) >= step[0]]
        factor, symbol = reached[0] if reached else steps[-1]
        return DisplayScale(factor, f"{symbol}{slash}{per}")
    if unit == "ratio":
        return DisplayScale(0.01, PERCENT) if is_share_metric(name) else DisplayScale(1.0, "")
    if largest < MAX_WRITTEN_OUT_COUNT:
        return DisplayScale(1.0, unit_suffix(unit))
    factor, prefix = next(step for step in LARGE_PREFIXES if largest >= step[0])
    return DisplayScale(factor, f"{prefix} {unit_suffix(unit)}".rstrip())


def is_share_metric(name: str) -> bool:
    """Whether a ratio is a share of a whole: ``data_stall`` and ``mfu`` are, ``speedup_vs_eager`` is not."""
    return name.rpartition("_")[2] in SHARE_SUFFIXES


def unit_suffix(unit: str) -> str:
    """Return the unit to write behind a number: none for counts and for asv's placeholder unit."""
    return "" if unit in {"count", "unit", "1", ""} else unit


def format_quantity(value: float, unit: str, name: str = "") -> str:
    """Format one value in a fitting unit: ``14.71 ms``, ``1.5 GiB``, ``1,024``, ``19.4 %``."""
    return choose_display_scale([value], unit, name).format_with_unit(value)


def format_number(value: float) -> str:
    """Format up to four significant digits, with thousands separators and without trailing zeros."""
    text = format_significant_digits(value)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def format_significant_digits(value: float, digits: int = 4) -> str:
    """Format exactly ``digits`` significant digits; a whole number keeps all of its digits."""
    if not math.isfinite(value):
        if math.isnan(value):
            return "not a number"
        return f"{MINUS}∞" if value < 0 else "∞"
    whole = value == int(value) and abs(value) < MAX_WRITTEN_OUT_COUNT
    rounded = value if whole else float(f"{value:.{digits}g}")
    if rounded != 0 and not 1e-4 <= abs(rounded) < 1e9:
        return f"{rounded:.{digits - 1}e}".replace("-", MINUS)
    # Counted after rounding: 9999.6 has five digits then.
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded)))) if rounded else 0
    return f"{rounded:,.{decimals}f}".replace("-", MINUS)


def format_percent(change: float) -> str:
    """Format the magnitude of a relative change: ``18.3 %``, two decimals below 0.1 %, none from 100 %."""
    size = abs(change) * 100
    if size >= 100:
        return f"{size:,.0f} %"
    # 0.0995 and more would read 0.10 with two decimals, and 0.1 with one.
    return f"{size:.2f} %" if 0 < size < 0.0995 else f"{size:.1f} %"


def format_signed_percent(change: float) -> str:
    """Format a relative change with its sign: ``+18.3 %``, ``−4.0 %``."""
    size = format_percent(change)
    if not any(digit in size for digit in "123456789"):
        return size
    return f"{MINUS if change < 0 else '+'}{size}"


def format_fine_percent(share: float) -> str:
    """Format a share with two significant digits, as tolerances of numerics need: ``0.0012 %``, ``3 %``."""
    size = 100 * abs(share)
    if 0 < size < 1e-6:
        return f"{size:.1e} %".replace("-", MINUS)
    decimals = max(0, 1 - math.floor(math.log10(size))) if size else 0
    text = f"{size:,.{decimals}f}"
    return f"{text.rstrip('0').rstrip('.') if decimals else text} %"


def format_count(count: int, noun: str, plural: str = "") -> str:
    """Format a count with its noun: ``1 pair``, ``10 pairs``, ``1,200 commits``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def format_all_of(count: int, noun: str) -> str:
    """Format all of a count with its noun: ``the one place``, ``both places``, ``all 9 places``."""
    quantity = {1: "the one", 2: "both"}.get(count, f"all {count:,}")
    return f"{quantity} {noun}{'' if count == 1 else 's'}"


def format_age(seconds: float) -> str:
    """Format roughly how long ago something was: ``3 hours ago``, ``just now``."""
    return f"{format_rough_duration(seconds)} ago" if seconds >= 60 else "just now"


def format_day(moment: datetime) -> str:
    """Format a date: ``7 Sep 2026``."""
    return f"{moment.day} {moment:%b %Y}"


def format_duration(seconds: float) -> str:
    """Format a duration in its two largest units: ``42 s``, ``3 min 5 s``, ``2 h 10 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def format_rough_duration(seconds: float) -> str:
    """Format a time span in its largest whole unit: ``5 days``, ``3 hours``."""
    steps = ((86400 * 365, "year"), (86400 * 30, "month"), (86400, "day"), (3600, "hour"), (60, "minute"))
    for length, unit in steps:
        if seconds >= length:
            return format_count(int(seconds // length), unit)
    return "less than a minute"
