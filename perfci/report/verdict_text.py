"""Put verdicts into words: label, glyph, tone and sentence, the same on pages, in comments and terminals.

No meaning is in colour alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from perfci.model import (
    ChangePoint,
    Direction,
    Interval,
    Metric,
    Series,
    Stage,
    Status,
    TailVerdict,
    Verdict,
    VerdictKind,
)
from perfci.number_format import (
    choose_display_scale,
    format_count,
    format_number,
    format_percent,
    format_signed_percent,
)
from perfci.report.escaping import MAX_REASON_LENGTH, make_printable
from perfci.verdicts.related_metrics import is_felt_by_users

Tone = Literal["worse", "better", "same", "unsure", "void"]
"""The colour tone of a verdict: vermilion, blue, grey, amber, or hollow grey."""

NO_NOISE_FLOOR = "–"

TONES: dict[VerdictKind, Tone] = {
    VerdictKind.REGRESSION: "worse",
    VerdictKind.IMPROVEMENT: "better",
    VerdictKind.UNCHANGED: "same",
    VerdictKind.INCONCLUSIVE: "unsure",
    VerdictKind.NOT_COMPARABLE: "void",
    VerdictKind.MISSING: "void",
    VerdictKind.FAILED: "worse",
}

GLYPHS = {
    VerdictKind.UNCHANGED: "≈",
    VerdictKind.INCONCLUSIVE: "?",
    VerdictKind.NOT_COMPARABLE: "≠",
    VerdictKind.MISSING: "○",
    VerdictKind.FAILED: "✕",
}

SELF_EVIDENT_METRICS = frozenset({"time", "cpu_time", "value", "memory", "peak_memory"})
"""Metric names omitted from series names, as the unit and the sentence already imply them."""

COUNTED_THINGS = {
    "host_syncs": ("wait for the device", "waits for the device"),
    "graph_breaks": ("graph break", "graph breaks"),
    "recompiles": ("recompile", "recompiles"),
    "upcast_bytes": ("converted to a wider type",) * 2,
    "copied_to_device_bytes": ("copied to the device",) * 2,
    "pageable_copy_bytes": ("copied from pageable memory",) * 2,
    "blocking_copy_bytes": ("copied while the host waits",) * 2,
}
"""What follows one and what follows several, by the metric of an exact count."""

COUNTED_PER = {"measure_step_counts": " per step", "measure_stream_counts": " per request"}
"""What one call of a metric group of ``ModelBench`` is."""

CHANGE_KINDS = frozenset({VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT})

QUIET_KINDS = frozenset({VerdictKind.UNCHANGED, VerdictKind.INCONCLUSIVE})
"""Kinds that need no action, which lists of verdicts show on request only."""

SEVERITY_ORDER = (
    VerdictKind.FAILED,
    VerdictKind.REGRESSION,
    VerdictKind.INCONCLUSIVE,
    VerdictKind.NOT_COMPARABLE,
    VerdictKind.MISSING,
    VerdictKind.IMPROVEMENT,
    VerdictKind.UNCHANGED,
)

FACTOR_WORDING_FROM = 3.0
"""The ratio from which a factor replaces the percentage: "takes 7.5 times as long"."""


def short_series_name(series: Series) -> str:
    """Return the short name of a series: its cell, and its metric unless that is self-evident."""
    if series.metric.name in SELF_EVIDENT_METRICS:
        return make_printable(series.cell)
    return make_printable(f"{series.cell} · {series.metric.name}")


def verdict_kind_label(kind: VerdictKind) -> str:
    """Return the kind of a verdict in words."""
    return kind.value.replace("_", " ")


def is_candidate(verdict: Verdict) -> bool:
    """Whether a change was found in screening only, and is not confirmed on new pairs."""
    return verdict.kind in CHANGE_KINDS and verdict.stage is Stage.SCREENING


def verdict_label(verdict: Verdict) -> str:
    """Return the kind in words, with ``candidate`` before an unconfirmed change."""
    label = verdict_kind_label(verdict.kind)
    return f"candidate {label}" if is_candidate(verdict) else label


def verdict_tone(verdict: Verdict) -> Tone:
    """Return the colour tone of a verdict."""
    return TONES[verdict.kind]


def verdict_glyph(verdict: Verdict) -> str:
    """Return the glyph of a verdict: a change points the way of its value, solid if confirmed."""
    if verdict.kind not in CHANGE_KINDS:
        return GLYPHS[verdict.kind]
    return direction_arrow(has_increased(verdict), solid=not is_candidate(verdict))


def direction_arrow(up: bool, *, solid: bool) -> str:
    """Return an arrow glyph; ``solid`` means confirmed."""
    if up:
        return "▲" if solid else "△"
    return "▼" if solid else "▽"


def has_increased(verdict: Verdict) -> bool:
    """Whether the value increased, derived from kind and direction where there is no ratio."""
    if verdict.ratio is not None:
        return verdict.ratio > 1
    return (verdict.kind is VerdictKind.REGRESSION) == (verdict.series.metric.direction == "lower")


def status_label(status: Status) -> str:
    """Return the status in words; a skipped benchmark is not available, which is no failure."""
    return "not available" if status is Status.SKIPPED else status.value


def format_noise_floor(verdict: Verdict) -> str:
    """Return the noise floor of a comparison: a dash where its series has too few A/A runs to have one."""
    if verdict.noise_floor is not None:
        return format_percent(verdict.noise_floor)
    return "" if verdict.ratio is None else NO_NOISE_FLOOR


def classify_change(ratio: float, direction: Direction) -> VerdictKind:
    """Classify a level change as regression or improvement by the direction of its metric."""
    return VerdictKind.REGRESSION if (ratio > 1) == (direction == "lower") else VerdictKind.IMPROVEMENT


def verdict_sentence(verdict: Verdict) -> str:
    """Describe the decision, the size of the change and its uncertainty."""
    name = short_series_name(verdict.series)
    if verdict.kind in CHANGE_KINDS and verdict.ratio is not None:
        sentence = f"{name} {change_phrase(verdict)}{_tail_suffix(verdict)}"
        if is_candidate(verdict):
            sentence += "; found in screening, not yet confirmed on new pairs"
        if verdict.noise_floor is not None:
            sentence += f"; noise floor {format_percent(verdict.noise_floor)}"
        return sentence
    if verdict.kind in CHANGE_KINDS and verdict.base_level is not None and verdict.head_level is not None:
        return f"{name}{_appeared_count_phrase(verdict) or _count_change_phrase(verdict)}"
    if verdict.kind is VerdictKind.UNCHANGED and verdict.ratio is not None:
        mde = f"; minimum detectable effect {format_percent(verdict.mde)}" if verdict.mde is not None else ""
        return f"{name} unchanged: {_estimate_phrase(verdict)}{_tail_suffix(verdict)}{mde}"
    if verdict.kind is VerdictKind.INCONCLUSIVE:
        estimate = f" {_estimate_phrase(verdict)}" if verdict.ratio is not None else ""
        return f"inconclusive: {name}{estimate}{_tail_suffix(verdict)}; {_next_step(verdict)}"
    if verdict.kind is VerdictKind.NOT_COMPARABLE:
        return f"{name} is not comparable{_reason_suffix(verdict)}"
    if verdict.kind is VerdictKind.MISSING:
        return f"{name} was not measured on both sides{_reason_suffix(verdict)}"
    if verdict.kind is VerdictKind.FAILED:
        return f"{name} failed at {verdict.head[:10]}{_reason_suffix(verdict)}"
    return f"{name}: {verdict_kind_label(verdict.kind)}{_reason_suffix(verdict)}"


def _count_change_phrase(verdict: Verdict) -> str:
    """Describe a change that no ratio expresses: ``went from none to 52 (worse), counted exactly``."""
    base, head = format_in_common_unit((verdict.base_level, verdict.head_level), verdict.series.metric)
    word = "worse" if verdict.kind is VerdictKind.REGRESSION else "better"
    return f" went from {base if verdict.base_level else 'none'} to {head} ({word}), counted exactly"


def _appeared_count_phrase(verdict: Verdict) -> str:
    """Name what is counted where there was none: ``: 52 graph breaks per step (none before)``; else empty."""
    words = COUNTED_THINGS.get(verdict.series.metric.name)
    if words is None or verdict.base_level != 0.0:
        return ""
    _, head = format_in_common_unit((verdict.base_level, verdict.head_level), verdict.series.metric)
    per = COUNTED_PER.get(verdict.series.benchmark.name.rpartition(".")[2], "")
    return f": {head} {words[verdict.head_level != 1]}{per} (none before), counted exactly"


def change_phrase(verdict: Verdict) -> str:
    """Describe a change with its interval: ``got 18.3 % slower [15.9, 20.8], 10 pairs``."""
    assert verdict.ratio is not None
    change = relative_change_phrase(verdict.ratio, verdict.series.metric)
    interval = _range_suffix(verdict.ratio, verdict.interval, verdict.series.metric)
    return f"{change}{interval}{_pairs_suffix(verdict)}"


def tail_phrase(tail: TailVerdict, metric: Metric) -> str:
    """Describe what the tail did in words: ``p90 got 22.0 % slower [14.1, 30.3]``."""
    if tail.kind in CHANGE_KINDS:
        size = relative_change_phrase(tail.ratio, metric)
        return f"{metric.tail_name} {size}{_range_suffix(tail.ratio, tail.interval, metric)}"
    interval = f" {format_interval(tail.interval)}" if tail.interval else ""
    word = verdict_kind_label(tail.kind)
    return f"{metric.tail_name} {word}: {format_signed_percent(tail.ratio - 1)}{interval}"


def tail_cell(verdict: Verdict) -> str:
    """Format the tail for a table: ``p90 ▲ worse +22.0 % [+14.1, +30.3]``; empty without one."""
    tail = verdict.tail
    if tail is None:
        return ""
    interval = format_interval(tail.interval) if tail.interval else ""
    size = format_signed_percent(tail.ratio - 1)
    return " ".join(
        part for part in (verdict.series.metric.tail_name, tail_label(tail), size, interval) if part
    )


def tail_label(tail: TailVerdict) -> str:
    """Return the glyph of the tail, with ``worse`` or ``better`` where it moved."""
    if tail.kind not in CHANGE_KINDS:
        return GLYPHS[tail.kind]
    word = "worse" if tail.kind is VerdictKind.REGRESSION else "better"
    return f"{direction_arrow(tail.ratio > 1, solid=True)} {word}"


def change_with_tail(verdict: Verdict) -> str:
    """Format a change without interval, and its tail if that moved: ``+18.3 % (p90 ▲ worse +22.0 %)``."""
    change = "changed" if verdict.ratio is None else format_signed_percent(verdict.ratio - 1)
    tail = verdict.tail
    if tail is None or tail.kind not in CHANGE_KINDS:
        return change
    size = format_signed_percent(tail.ratio - 1)
    return f"{change} ({verdict.series.metric.tail_name} {tail_label(tail)} {size})"


def part_of_whole_phrase(part: Verdict, whole: Verdict) -> str:
    """Hold a part that moved against its whole: ``moved without its whole: cpu_step_time unchanged +0.1 %``.

    A part cannot move by more than the whole of it moved: where the intervals say so, one of them is off.
    """
    estimate = f" {_estimate_phrase(whole)}" if whole.ratio is not None else ""
    verb = "moved against its whole" if whole.kind in CHANGE_KINDS else "moved without its whole"
    phrase = f"{verb}: {whole.series.metric.name} {verdict_kind_label(whole.kind)}{estimate}"
    if _exceeds_whole(part, whole):
        return f"{phrase}; a part cannot move by more than its whole, so one of the two is off"
    return phrase


def _exceeds_whole(part: Verdict, whole: Verdict) -> bool:
    """Whether the least that a part moved by, in its unit, is more than the most that its whole did."""
    if not (part.interval and whole.interval and part.base_level and whole.base_level):
        return False
    moves = [
        sorted(verdict.base_level * (bound - 1) for bound in (verdict.interval.lo, verdict.interval.hi))
        for verdict in (part, whole)
        if verdict.base_level and verdict.interval
    ]
    (part_lo, part_hi), (whole_lo, whole_hi) = moves
    return part_lo > max(whole_hi, 0.0) or part_hi < min(whole_lo, 0.0)


def is_tail_moved_alone(verdict: Verdict) -> bool:
    """Whether the tail got worse or better and the median did not move the same way."""
    return verdict.tail is not None and verdict.tail.kind in CHANGE_KINDS - {verdict.kind}


def change_size_phrase(change: ChangePoint, metric: Metric) -> str:
    """Describe the size of a change point with its interval: ``got 18.3 % slower [15.9, 20.8]``."""
    if change.before <= 0:
        return f"went from {change.before:g} to {change.after:g}"
    ratio = 1 + change.relative_change
    return f"{relative_change_phrase(ratio, metric)}{_range_suffix(ratio, change.interval, metric)}"


def change_levels_phrase(change: ChangePoint) -> str:
    """Name the levels before and after a change: ``12.40 ms → 14.67 ms``; empty where the size does."""
    if change.before <= 0:
        return ""
    return " → ".join(format_in_common_unit((change.before, change.after), change.series.metric))


def relative_change_phrase(ratio: float, metric: Metric) -> str:
    """Describe a relative change in the words of its unit: slower, more memory, rose."""
    size = format_percent(ratio - 1)
    if metric.unit == "seconds":
        if ratio >= FACTOR_WORDING_FROM:
            return f"takes {format_number(ratio)} times as long"
        return f"got {size} {'slower' if ratio > 1 else 'faster'}"
    if metric.unit == "bytes":
        if ratio >= FACTOR_WORDING_FROM:
            return f"needs {format_number(ratio)} times the memory"
        return f"needs {size} {'more' if ratio > 1 else 'less'} memory"
    good = (ratio < 1) == (metric.direction == "lower")
    return f"{'rose' if ratio > 1 else 'fell'} {size} ({'better' if good else 'worse'})"


@dataclass(frozen=True, slots=True)
class VerdictKindCount:
    """The number of verdicts of one kind."""

    label: str
    tone: Tone
    count: int
    is_candidate: bool = False

    def __str__(self) -> str:
        return f"{self.count:,} {self.label}"


def count_verdicts_by_kind(verdicts: Iterable[Verdict]) -> list[VerdictKindCount]:
    """Count verdicts per kind, most severe first; candidates apart from confirmed changes."""
    return count_verdict_kinds(Counter((verdict.kind, verdict.stage) for verdict in verdicts))


def count_verdict_kinds(counts: Mapping[tuple[VerdictKind, Stage], int]) -> list[VerdictKindCount]:
    """Put counts of verdicts by kind and stage in order, most severe first; candidates stand apart."""
    by_candidate: Counter[tuple[VerdictKind, bool]] = Counter()
    for (kind, stage), count in counts.items():
        by_candidate[kind, kind in CHANGE_KINDS and stage is Stage.SCREENING] += count
    kind_counts = []
    for kind in SEVERITY_ORDER:
        for candidate in (False, True):
            if count := by_candidate[kind, candidate]:
                prefix = "candidate " if candidate else ""
                plural = "s" if kind in CHANGE_KINDS and count != 1 else ""
                label = f"{prefix}{verdict_kind_label(kind)}{plural}"
                kind_counts.append(VerdictKindCount(label, TONES[kind], count, candidate))
    return kind_counts


def verdict_counts_sentence(verdicts: Iterable[Verdict]) -> str:
    """List the verdict counts: ``1 regression, 2 improvements, 3 unchanged``."""
    return ", ".join(str(count) for count in count_verdicts_by_kind(verdicts))


def most_severe_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict that ranks first."""
    return rank_verdicts_by_severity(verdicts)[0]


def rank_verdicts_by_severity(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Order verdicts by severity of kind, what users feel first, then by size of change, then by name."""

    def sort_key(verdict: Verdict) -> tuple[int, bool, float, str]:
        # Halved and doubled are equally large.
        ratio = verdict.ratio or 0.0
        size = max(ratio, 1 / ratio) if ratio > 0 else 0.0
        is_quiet = verdict.kind in CHANGE_KINDS and not is_felt_by_users(verdict.series)
        return SEVERITY_ORDER.index(verdict.kind), is_quiet, -size, verdict.series.label

    return sorted(verdicts, key=sort_key)


def next_step_or_reason(verdict: Verdict) -> str:
    """Return the next step for an inconclusive verdict, else its reason, which may be empty."""
    if verdict.kind is VerdictKind.INCONCLUSIVE:
        return _next_step(verdict)
    return make_printable(verdict.reason, MAX_REASON_LENGTH)


def format_interval(interval: Interval) -> str:
    """Format the interval of a change in signed percent: ``[−1.2, +8.3]``."""
    return f"[{_signed_number(interval.lo - 1)}, {_signed_number(interval.hi - 1)}]"


def interval_cell(verdict: Verdict) -> str:
    """Format the interval of a verdict for a table: ``exact`` if both sides were counted, else in percent."""
    if verdict.interval is None:
        return ""
    return "exact" if verdict.interval.lo == verdict.interval.hi else format_interval(verdict.interval)


def format_in_common_unit(values: Sequence[float | None], metric: Metric) -> list[str]:
    """Format levels that are read side by side in one unit; empty where there is none."""
    scale = choose_display_scale((value for value in values if value is not None), metric.unit, metric.name)
    return ["" if value is None else scale.format_with_unit(value) for value in values]


def _range_suffix(ratio: float, interval: Interval | None, metric: Metric) -> str:
    """Format the interval as magnitudes, smaller first, if all of it is on one side; else with signs. The
    size of an exact value has none."""
    if interval is None:
        return ""
    if interval.lo == interval.hi:
        return ", exact"
    lo, hi = interval.lo - 1, interval.hi - 1
    if lo * hi <= 0:
        return f" {format_interval(interval)}"
    if ratio >= FACTOR_WORDING_FROM and metric.unit in {"seconds", "bytes"}:
        return f" [{format_number(lo + 1)}, {format_number(hi + 1)}]"
    smaller, larger = sorted((abs(lo), abs(hi)))
    return f" [{_unsigned_number(smaller)}, {_unsigned_number(larger)}]"


def _estimate_phrase(verdict: Verdict) -> str:
    assert verdict.ratio is not None
    interval = f" {format_interval(verdict.interval)}" if verdict.interval else ""
    return f"{format_signed_percent(verdict.ratio - 1)}{interval}{_pairs_suffix(verdict)}"


def _tail_suffix(verdict: Verdict) -> str:
    return f"; {tail_phrase(verdict.tail, verdict.series.metric)}" if verdict.tail else ""


def _pairs_suffix(verdict: Verdict) -> str:
    return f", {format_count(verdict.pairs, 'pair')}" if verdict.pairs else ""


def _next_step(verdict: Verdict) -> str:
    if verdict.pairs_to_decide is not None:
        noun = "more run" if verdict.stage is Stage.SEPARATE_RUNS else "more pair"
        return f"about {format_count(verdict.pairs_to_decide, noun)} would decide"
    if verdict.reason:
        return make_printable(verdict.reason, MAX_REASON_LENGTH)
    if verdict.stage is Stage.SCREENING:
        return "screening alone cannot decide it"
    return "no practical number of pairs would decide it"


def _reason_suffix(verdict: Verdict) -> str:
    return f": {make_printable(verdict.reason, MAX_REASON_LENGTH)}" if verdict.reason else ""


def _signed_number(change: float) -> str:
    return format_signed_percent(change).removesuffix(" %")


def _unsigned_number(change: float) -> str:
    return format_percent(change).removesuffix(" %")
