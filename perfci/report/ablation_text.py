"""A ladder in words: for each metric every step's own change with its interval, and the total."""

from __future__ import annotations

from collections.abc import Sequence

from perfci.model import Series, Verdict, VerdictKind
from perfci.report.escaping import code_block, code_span, printable, unquoted
from perfci.report.number_format import counting, measured, signed_percent
from perfci.report.text_tables import aligned
from perfci.report.verdict_labels import GLYPHS, arrow
from perfci.report.verdict_sentences import interval_text, level_texts
from perfci.verdicts.policy import Policy
from perfci.verdicts.variants.ablation import Ladder, Line, lines_of, metrics_of, total_of

HEADINGS = ("", "step", "level", "change", "95 % interval", "gain", "rounds", "")
LEFT = frozenset({0, 1, 7})
GAIN_DIGITS = 3


def ladder_text(ladder: Ladder, policy: Policy) -> str:
    """Everything a terminal shows of one benchmark's ladder; nothing of one that only gives numerics."""
    shown = metrics_of(ladder, policy)
    if not shown and len(ladder.good) > 1:
        return ""
    if not shown:
        return f"{heading(ladder)}\n\n{fallen_text(ladder)}\nfewer than two steps can be compared\n"
    parts = [heading(ladder), *(_metric(ladder, series) for series in shown), fallen_text(ladder)]
    return "\n\n".join(part for part in parts if part) + "\n"


def ladders_markdown(ladders: Sequence[Ladder], policy: Policy) -> str:
    """The same in one code block for each benchmark: columns line up everywhere."""
    texts = [(one.name, text) for one in ladders if (text := ladder_text(one, policy))]
    return "\n".join(f"### ladder {code_span(name)}\n\n{code_block(text.splitlines())}\n" for name, text in texts)


def heading(ladder: Ladder) -> str:
    """``ladder speed: model.Gpt.measure_training, batch=8``."""
    rest = "".join(f", {name}={unquoted(value)}" for name, value in ladder.rest)
    return f"ladder {printable(ladder.name)}: {printable(ladder.benchmark + rest)}"


def fallen_text(ladder: Ladder) -> str:
    """One line for each step that does not count, and why."""
    return "\n".join(f"✕ {printable(rung.step)} {printable(rung.fallen, 300)}" for rung in ladder.rungs if rung.fallen)


def _metric(ladder: Ladder, series: Series) -> str:
    lines = lines_of(ladder, series.metric.name)
    levels = level_texts([line.level for line in lines], series.metric)
    rows = [_row(line, level, series, previous) for line, level, previous in _with_previous(lines, levels)]
    total = total_of(ladder, series.metric.name)
    if total is not None and len(ladder.good) > 2:
        rows.append(_total(total))
    table = aligned(HEADINGS, rows, LEFT)
    return "\n".join([printable(series.metric.name), *(f"  {line}" for line in table.splitlines())])


def _with_previous(lines: Sequence[Line], levels: Sequence[str]) -> list[tuple[Line, str, str]]:
    """Each line with the name of the step right before it, be that good or fallen."""
    names = ["", *(line.rung.step for line in lines)]
    return list(zip(lines, levels, names, strict=False))


def _row(line: Line, level: str, series: Series, previous: str) -> tuple[str, ...]:
    rung = line.rung
    if rung.fallen:
        return ("✕", printable(rung.step), "", "", "", "", "", rung.fallen.partition(":")[0])
    if line.verdict is None:
        return ("", printable(rung.step), level, "", "", "", "", "" if not rung.against else "not measured")
    against = f"against {printable(rung.against)}" if rung.against != previous else ""
    return (*_known(line.verdict, printable(rung.step), level), against or _why(line.verdict))


def _total(total: Verdict) -> tuple[str, ...]:
    return (*_known(total, "total", ""), _why(total))


def _known(verdict: Verdict, step: str, level: str) -> tuple[str, ...]:
    return (
        _glyph(verdict),
        step,
        level,
        "" if verdict.ratio is None else signed_percent(verdict.ratio - 1),
        "" if verdict.interval is None else _interval(verdict),
        "" if verdict.ratio is None else gain(verdict),
        str(verdict.pairs) if verdict.pairs else "",
    )


def gain(verdict: Verdict) -> str:
    """How many times as good: 1.53x where a step takes 0.65 of the time, or gives 1.53 of the tokens."""
    assert verdict.ratio is not None
    lower = verdict.series.metric.direction == "lower"
    times = 1 / verdict.ratio if lower and verdict.ratio else verdict.ratio
    return f"{measured(times, GAIN_DIGITS)}x"


def _interval(verdict: Verdict) -> str:
    assert verdict.interval is not None
    return "exact" if verdict.interval.lo == verdict.interval.hi else interval_text(verdict.interval)


def _glyph(verdict: Verdict) -> str:
    """Towards more or less, filled: a ladder is not waiting for anything to be confirmed."""
    if verdict.kind in GLYPHS or verdict.ratio is None:
        return GLYPHS.get(verdict.kind, "")
    return arrow(verdict.ratio > 1, solid=True)


def _why(verdict: Verdict) -> str:
    if verdict.kind is VerdictKind.INCONCLUSIVE and verdict.pairs_to_decide is not None:
        return f"about {counting(verdict.pairs_to_decide, 'more round')} would decide"
    return "" if verdict.ratio is not None else printable(verdict.reason, 200)
