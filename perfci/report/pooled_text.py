"""What all benchmarks of a comparison say together, in words: a finding beside the verdicts, never instead of one."""

from __future__ import annotations

from perfci.model import Stage
from perfci.report.number_format import counting, percent, signed_percent
from perfci.report.verdict_sentences import interval_text
from perfci.verdicts.compare.pooled_verdict import PooledKind, PooledVerdict

WORDS = {
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


def pooled_text(found: PooledVerdict) -> str:
    """One line for a terminal."""
    return f"{GLYPHS[found.kind]} all benchmarks together: {pooled_sentence(found)}\n"


def pooled_markdown(found: PooledVerdict) -> str:
    return f"{GLYPHS[found.kind]} **All benchmarks together:** {pooled_sentence(found)}\n"


def pooled_sentence(found: PooledVerdict) -> str:
    """``worse everywhere: +1.5 % time [+1.2, +1.8], 19 of 20 benchmarks this way; ...``."""
    if found.ratio is None or found.interval is None:
        return f"{WORDS[found.kind]}: {found.reason.removeprefix('Nothing to pool: ').rstrip('.')}"
    size = f"{signed_percent(found.ratio - 1)} time {interval_text(found.interval)}"
    if found.kind is PooledKind.NO_SHIFT:
        return f"no shift beyond {percent(found.bar)}: {size} over {counting(found.benchmarks, 'benchmark')}"
    agreeing = f"{found.agreeing} of {counting(found.benchmarks, 'benchmark')} this way"
    told = f"{WORDS[found.kind]}: {size}, {agreeing}"
    if not found.is_finding:
        return f"{told}; neither a shift of {percent(found.bar)} nor its absence is shown"
    seen = "; seen while screening, so no check turns red for it" if found.stage is Stage.SCREENING else ""
    return f"{told}{seen}: look for what they share"
