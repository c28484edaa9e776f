"""One plain sentence per verdict, and one for a whole page: the same words on every surface."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfci.model import Interval, Metric, Series, Stage, Verdict, VerdictKind
from perfci.report.charts.series_trend import Mark, Trend
from perfci.report.escaping import printable, series_name
from perfci.report.number_format import MINUS, counting, number, percent, quantity, scale_of, signed_percent
from perfci.report.verdict_labels import MOVES, SEVEREST_FIRST, TONES, Tone, is_suspicion, word

LONGEST_REASON = 300

SEVERAL_TIMES = 3.0
"""From here on a factor reads better than a percentage: "takes 7.5 times as long", not "got 650 % slower"."""


def verdict_sentence(verdict: Verdict) -> str:
    """Say what was decided, by how much, and how far to believe it."""
    name = series_name(verdict.series)
    if verdict.kind in MOVES and verdict.ratio is not None:
        suspicion = "; seen while screening, not yet confirmed on fresh pairs" if is_suspicion(verdict) else ""
        return f"{name} {move(verdict)}{suspicion}{_noise(verdict)}"
    if verdict.kind is VerdictKind.UNCHANGED and verdict.ratio is not None:
        return f"{name} unchanged: {_estimate(verdict)}{_resolution(verdict)}"
    if verdict.kind is VerdictKind.INCONCLUSIVE:
        return f"inconclusive: {name}{_estimate_after_space(verdict)}; {_what_would_decide(verdict)}"
    if verdict.kind is VerdictKind.NOT_COMPARABLE:
        return f"{name} is not comparable{_because(verdict)}"
    if verdict.kind is VerdictKind.MISSING:
        return f"{name} was not measured on both sides{_because(verdict)}"
    if verdict.kind is VerdictKind.FAILED:
        return f"{name} failed at {verdict.head[:10]}{_because(verdict)}"
    return f"{name}: {word(verdict.kind)}{_because(verdict)}"


def move(verdict: Verdict) -> str:
    """``got 18.3 % slower [15.9, 20.8], 10 pairs``."""
    assert verdict.ratio is not None
    return f"{moved(verdict.ratio, verdict.series.metric)}{_range(verdict)}{_pairs(verdict)}"


def moved(ratio: float, metric: Metric) -> str:
    """Say a change of level in the words of its unit."""
    size = percent(ratio - 1)
    if metric.unit == "seconds":
        if ratio >= SEVERAL_TIMES:
            return f"takes {number(ratio)} times as long"
        return f"got {size} {'slower' if ratio > 1 else 'faster'}"
    if metric.unit == "bytes":
        if ratio >= SEVERAL_TIMES:
            return f"needs {number(ratio)} times the memory"
        return f"needs {size} {'more' if ratio > 1 else 'less'} memory"
    good = (ratio < 1) == (metric.direction == "lower")
    return f"{'rose' if ratio > 1 else 'fell'} {size} ({'better' if good else 'worse'})"


@dataclass(frozen=True, slots=True)
class Count:
    """How often one word was the answer."""

    words: str
    tone: Tone
    count: int

    def __str__(self) -> str:
        return f"{self.count:,} {self.words}"


def counts(verdicts: Iterable[Verdict]) -> list[Count]:
    """How often each word occurs, the severest first; a suspicion is counted apart from what was confirmed."""
    found = Counter((one.kind, is_suspicion(one)) for one in verdicts)
    order = [(kind, suspected) for kind in SEVEREST_FIRST for suspected in (False, True)]
    return [_count(kind, suspected, found[kind, suspected]) for kind, suspected in order if found[kind, suspected]]


def counts_sentence(verdicts: Iterable[Verdict]) -> str:
    """``1 regression, 2 improvements, 3 unchanged``."""
    return ", ".join(str(count) for count in counts(verdicts))


@dataclass(frozen=True, slots=True)
class Told:
    """What a page says in large letters, and what it says right below; as text, one sentence after the other."""

    headline: str
    detail: str = ""

    def __str__(self) -> str:
        return ". ".join(part for part in (self.headline, self.detail) if part) + "."


def comparison_sentence(verdicts: Sequence[Verdict]) -> Told:
    """Answer "is head worse than base?" for a whole comparison."""
    if not verdicts:
        return Told("Nothing was compared")
    worst, told = severest(verdicts), counts_sentence(verdicts)
    if worst.kind is VerdictKind.UNCHANGED:
        return Told(f"Nothing got worse: {told}")
    if worst.kind is VerdictKind.IMPROVEMENT:
        return Told(f"Nothing got worse: {told}", f"Largest: {verdict_sentence(worst)}")
    if worst.kind in {VerdictKind.REGRESSION, VerdictKind.FAILED}:
        return Told(told, f"{'Worst: ' if len(verdicts) > 1 else ''}{verdict_sentence(worst)}")
    return Told(f"No regression found, not everything decided: {told}")


def overview_sentence(
    open_regressions: Sequence[Verdict], *, series: int, commits: int, compared: bool, incidents: int = 0
) -> Told:
    """Answer "did anything get worse?" for a project; never claim calm where nothing was compared, or one is asked."""
    scope = f"{counting(series, 'series', 'series')} over {counting(commits, 'commit')}"
    if open_regressions:
        worst = severest(open_regressions)
        several = "Worst: " if len(open_regressions) > 1 else ""
        return Told(counting(len(open_regressions), "open regression"), f"{several}{verdict_sentence(worst)}")
    if incidents:
        return Told(counting(incidents, "open incident"), f"No regression is confirmed by fresh pairs, in {scope}")
    if not series:
        return Told("Nothing was measured yet")
    return (
        Told(f"No open regression in {scope}") if compared else Told("Nothing was compared yet", f"Measured: {scope}")
    )


def trend_sentence(trend: Trend) -> Told:
    """Say where a series stands and what moved it last, or why it has no value.

    Of a witness nobody says where it stands, only what it was last.
    """
    name, metric = series_name(trend.series), trend.series.metric
    failures = [f"{counting(len(trend.failed), 'commit')} failed"] if trend.failed else []
    if trend.last_level is None:
        if trend.dots and not trend.failed:
            return unavailable_sentence(trend.series, trend.dots[-1].reason)
        return Told(f"{name} has no measured value yet", "".join(failures))
    if not trend.levels:
        shown = quantity(trend.last_level, metric.unit, metric.name)
        return Told(f"{name} was {shown} at {trend.measured[-1].commit.sha[:10]}", "".join(failures))
    shown = quantity(trend.levels[-1].value, metric.unit, metric.name)
    return Told(f"{name} stands at {shown}", "; ".join([*_history(trend), *failures]))


def unavailable_sentence(series: Series, reason: str) -> Told:
    """Say why a machine cannot measure something, which is no failure."""
    why = printable(reason, LONGEST_REASON).rstrip(".")
    return Told(f"{series_name(series)} is not available here", why and f"Why: {why}")


def mark_sentence(mark: Mark, metric: Metric) -> str:
    """Say one change point in words."""
    states = {"convicted": "confirmed on fresh pairs", "candidate": "candidate", "refuted": "looked at, not confirmed"}
    return f"{moved(mark.ratio, metric)}, {states[mark.state]}"


def severest(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict to lead with."""
    return ranked(verdicts)[0]


def ranked(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Order verdicts as they deserve attention: by kind, then by size, then by name."""
    return sorted(verdicts, key=lambda one: (SEVEREST_FIRST.index(one.kind), -_size(one), one.series.label))


def advice(verdict: Verdict) -> str:
    """What a reader should know or do about a verdict that is no plain answer; empty for one that is."""
    if verdict.kind is VerdictKind.INCONCLUSIVE:
        return _what_would_decide(verdict)
    return printable(verdict.reason)


def interval_text(interval: Interval) -> str:
    """The interval of a change with signs, in percent: ``[−1.2, +8.3]``."""
    return f"[{_bare(interval.lo - 1)}, {_bare(interval.hi - 1)}]"


def level_texts(values: Sequence[float | None], metric: Metric) -> list[str]:
    """Levels that are read next to each other, all in one unit; empty where there is none."""
    scale = scale_of((value for value in values if value is not None), metric.unit, metric.name)
    return ["" if value is None else scale.text(value) for value in values]


def _range(verdict: Verdict) -> str:
    """Magnitudes, smaller first, where the whole interval is on the side the word names; else signs."""
    if verdict.interval is None:
        return ""
    lo, hi = verdict.interval.lo - 1, verdict.interval.hi - 1
    if lo * hi <= 0:
        return f" {interval_text(verdict.interval)}"
    assert verdict.ratio is not None
    if verdict.ratio >= SEVERAL_TIMES and verdict.series.metric.unit in {"seconds", "bytes"}:
        return f" [{number(lo + 1)}, {number(hi + 1)}]"
    smaller, larger = sorted((abs(lo), abs(hi)))
    return f" [{_magnitude(smaller)}, {_magnitude(larger)}]"


def _estimate(verdict: Verdict) -> str:
    assert verdict.ratio is not None
    interval = f" {interval_text(verdict.interval)}" if verdict.interval else ""
    return f"{signed_percent(verdict.ratio - 1)}{interval}{_pairs(verdict)}"


def _estimate_after_space(verdict: Verdict) -> str:
    return f" {_estimate(verdict)}" if verdict.ratio is not None else ""


def _pairs(verdict: Verdict) -> str:
    return f", {counting(verdict.pairs, 'pair')}" if verdict.pairs else ""


def _noise(verdict: Verdict) -> str:
    return f"; noise floor {percent(verdict.noise_floor)}" if verdict.noise_floor is not None else ""


def _resolution(verdict: Verdict) -> str:
    return f"; a change of {percent(verdict.mde)} would have shown" if verdict.mde is not None else ""


def _what_would_decide(verdict: Verdict) -> str:
    if verdict.pairs_to_decide is not None:
        return f"about {counting(verdict.pairs_to_decide, 'more pair')} would decide"
    if verdict.reason:
        return printable(verdict.reason)
    if verdict.stage is Stage.SCREENING:
        return "screening alone cannot decide it"
    return "no reasonable number of pairs would decide it here"


def _because(verdict: Verdict) -> str:
    return f": {printable(verdict.reason)}" if verdict.reason else ""


def _count(kind: VerdictKind, suspected: bool, count: int) -> Count:
    plural = "s" if kind in MOVES and count != 1 else ""
    return Count(f"{'suspected ' if suspected else ''}{word(kind)}{plural}", TONES[kind], count)


def _history(trend: Trend) -> list[str]:
    """What is recorded; whether anybody looked for more is not known here, so nothing is ruled out."""
    moves = [mark for mark in trend.marks if mark.state == "convicted"]
    candidates = [mark for mark in trend.marks if mark.state == "candidate"]
    parts = [f"It {moved(moves[-1].ratio, trend.series.metric)} at {moves[-1].commit[:10]}"] if moves else []
    parts += [f"{counting(len(candidates), 'candidate change')} not confirmed"] if candidates else []
    return parts or [f"No change is recorded over {counting(trend.commits, 'commit')}"]


def _size(verdict: Verdict) -> float:
    if verdict.ratio is None or verdict.ratio <= 0:
        return 0.0
    return max(verdict.ratio, 1 / verdict.ratio)


def _bare(change: float) -> str:
    return signed_percent(change).removesuffix(" %").replace("-", MINUS)


def _magnitude(change: float) -> str:
    return percent(change).removesuffix(" %")
