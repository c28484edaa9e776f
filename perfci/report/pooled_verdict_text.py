"""Format the pooled verdict over all benchmarks of a comparison, which adds to the verdicts of the series."""

from __future__ import annotations

from perfci.number_format import format_count, format_percent, format_signed_percent
from perfci.report.verdict_text import format_interval
from perfci.verdicts.compare.pooled_verdict import PooledKind, PooledVerdict

KIND_LABELS = {
    PooledKind.WORSE: "worse overall",
    PooledKind.BETTER: "better overall",
    PooledKind.INCONCLUSIVE: "inconclusive",
    PooledKind.TOO_FEW: "not pooled",
}

GLYPHS = {
    PooledKind.WORSE: "△",
    PooledKind.BETTER: "▽",
    PooledKind.NO_SHIFT: "≈",
    PooledKind.INCONCLUSIVE: "?",
    PooledKind.TOO_FEW: "○",
}


def format_pooled_verdict(pooled: PooledVerdict) -> str:
    """Format the pooled verdict as one line for a terminal."""
    return f"{GLYPHS[pooled.kind]} all benchmarks together: {pooled_verdict_sentence(pooled)}\n"


def render_pooled_verdict_markdown(pooled: PooledVerdict) -> str:
    """Render the pooled verdict as one line of Markdown."""
    return f"{GLYPHS[pooled.kind]} **All benchmarks together:** {pooled_verdict_sentence(pooled)}\n"


def pooled_verdict_sentence(pooled: PooledVerdict) -> str:
    """Describe the pooled shift.

    ``worse overall: +1.5 % time [+1.2, +1.8], 19 of 20 benchmarks in this direction; ...``
    """
    if pooled.ratio is None or pooled.interval is None:
        return f"{KIND_LABELS[pooled.kind]}: {pooled.reason.removeprefix('Nothing to pool: ').rstrip('.')}"
    size = f"{format_signed_percent(pooled.ratio - 1)} time {format_interval(pooled.interval)}"
    benchmarks = format_count(pooled.benchmarks, "benchmark")
    if pooled.kind is PooledKind.NO_SHIFT:
        return f"no overall shift beyond {format_percent(pooled.bar)}: {size} over {benchmarks}"
    agreeing = f"{pooled.agreeing} of {benchmarks} in this direction"
    finding = f"{KIND_LABELS[pooled.kind]}: {size}, {agreeing}"
    if not pooled.shows_change:
        return f"{finding}; a shift of {format_percent(pooled.bar)} is neither shown nor excluded"
    return f"{finding}; from screening only, so it fails no check; look for a common cause"
