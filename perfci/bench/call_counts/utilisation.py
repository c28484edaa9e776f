"""Utilisation of a device: what was achieved of its peak rates of operations and of memory traffic."""

from __future__ import annotations

from perfci.bench.call_counts.flop_count_by_format import FlopCount
from perfci.bench.devices.peak_rates import peak_flops
from perfci.bench.readings import Absent, Reading, informational


def utilisation_readings(count: FlopCount, seconds: float, device_name: str) -> dict[str, Reading | Absent]:
    """Work out ``flop_per_s``, ``mfu`` and ``hfu`` of a call that took so many seconds.

    Model FLOPs utilisation leaves out what was recomputed, hardware FLOPs utilisation counts it (PaLM,
    arXiv:2204.02311, appendix B). Both are held to the device's peak in the format in which most operations
    ran, whatever the benchmark calls it: a model may be bf16 itself. Absent, with the reason, where an
    operator has no formula, the peak is not known, or the share would be above 1, which no device can do.
    """
    if not seconds > 0:
        raise ValueError(f"a rate needs a time above 0 seconds; {seconds!r} was given")
    missing = count.missing_formulas_reason
    if missing is not None:
        return {"flop_per_s": missing, "mfu": missing, "hfu": missing}
    peak = peak_flops(device_name, count.main_format)
    return {
        "flop_per_s": informational(count.executed / seconds),
        "mfu": _peak_share(count.model / seconds, peak, count.main_format, device_name),
        "hfu": _peak_share(count.executed / seconds, peak, count.main_format, device_name),
    }


def _peak_share(rate: float, peak: float | None, format_name: str, device_name: str) -> Reading | Absent:
    if peak is None:
        return Absent(f"the {format_name} peak of {device_name} is not known")
    if rate > peak:
        return Absent(
            f"{rate:.4g} FLOP/s in {format_name} would be {rate / peak:.3g} times the peak of {device_name}: "
            "the time is too short, or that peak is another board's"
        )
    return informational(rate / peak)


def mbu(moved_bytes: float, seconds: float, peak: float | None) -> float | None:
    """Model bandwidth utilisation, a ratio, absent (None) where the device's peak (bytes/s) is not known.

    Decoding one token must read every weight and the whole cache once: ``moved_bytes`` = weights + KV
    cache, ``seconds`` = the time of that token. Source: Databricks, "LLM Inference Performance Engineering"
    (2023); gpt-fast prints the achieved bytes/s alone.
    """
    if not seconds > 0:
        raise ValueError(f"a rate needs a time above 0 seconds; {seconds!r} was given")
    return None if peak is None else moved_bytes / seconds / peak
