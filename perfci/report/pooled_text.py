"""What all benchmarks of a comparison say together, in words: a finding beside the verdicts, never instead of one."""

from __future__ import annotations

from perfci.model import Stage
from perfci.report.number_format import format_count, format_percent, format_signed_percent
from perfci.report.verdict_sentences import format_interval
from perfci.verdicts.compare.pooled_verdict import PooledKind, PooledVerdict

KIND_LABELS = {
    PooledKind.WORSE: "worse everywhere",
    PooledKind.BETTER: "better everywhere",
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


def format_pooled(pooled: PooledVerdict) -> str:
    """One line for a terminal."""
    return f"{GLYPHS[pooled.kind]} all benchmarks together: {pooled_sentence(pooled)}\n"


def render_pooled_markdown(pooled: PooledVerdict) -> str:
    return f"{GLYPHS[pooled.kind]} **All benchmarks together:** {pooled_sentence(pooled)}\n"


def pooled_sentence(pooled: PooledVerdict) -> str:
    """``worse everywhere: +1.5 % time [+1.2, +1.8], 19 of 20 benchmarks this way; ...``."""
    if pooled.ratio is None or pooled.interval is None:
        return f"{KIND_LABELS[pooled.kind]}: {pooled.reason.removeprefix('Nothing to pool: ').rstrip('.')}"
    size = f"{format_signed_percent(pooled.ratio - 1)} time {format_interval(pooled.interval)}"
    if pooled.kind is PooledKind.NO_SHIFT:
        return f"no shift beyond {format_percent(pooled.bar)}: {size} over {format_count(pooled.benchmarks, 'benchmark')}"
    agreeing = f"{pooled.agreeing} of {format_count(pooled.benchmarks, 'benchmark')} this way"
    told = f"{KIND_LABELS[pooled.kind]}: {size}, {agreeing}"
    if not pooled.is_finding:
        return f"{told}; neither a shift of {format_percent(pooled.bar)} nor its absence is shown"
    seen = "; seen while screening, so no check turns red for it" if pooled.stage is Stage.SCREENING else ""
    return f"{told}{seen}: look for what they share"
