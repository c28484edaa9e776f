"""Variants of one commit in words: benchmark by benchmark each variant next to the baseline, and what was rejected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perfci.model import Pairs, Verdict, VerdictKind, cell_name
from perfci.report.escaping import printable, unquoted
from perfci.report.goal_text import trade_sentence
from perfci.report.number_format import counting, signed_percent
from perfci.report.text_tables import aligned
from perfci.report.verdict_labels import verdict_glyph, verdict_word
from perfci.report.verdict_sentences import counts_sentence, interval_text, level_texts
from perfci.verdicts.goals.tradeoffs import Trade
from perfci.verdicts.variants.numeric_parity import Numerics, Parity
from perfci.verdicts.variants.variant_contrast import Contrast, Rejection, Variants, owner

HEADINGS = ("", "metric", "variant", "base", "head", "change", "95 % interval", "pairs", "verdict")
LEFT = frozenset({0, 1, 2, 8})

Place = tuple[str, Pairs]
"""A benchmark, and the parameters that all its variants share."""


def variants_text(found: Variants, trades: Sequence[Trade] = ()) -> str:
    """What a terminal shows: counts, rejections, a block for each benchmark, and what speed was paid with."""
    verdicts = [contrast.verdict for contrast in found.contrasts]
    parts = [
        f"{counts_sentence(verdicts) or _nothing(found)}{_rejected_count(found)}.",
        "\n".join(f"✕ {rejection_sentence(one)}" for one in found.rejections),
        *(_block(place, found) for place in _places(found)),
        "\n".join(f"⇄ {trade_sentence(trade)}" for trade in trades),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def rejection_sentence(one: Rejection) -> str:
    """``model.Gpt('flash', 8) is rejected, whatever its speed: loss at step 2 is ...``."""
    return f"{rejected_name(one)} is rejected, whatever its speed: {printable(one.reason, 300)}"


def rejected_name(one: Rejection) -> str:
    return printable(cell_name(owner(one.benchmark) or one.benchmark, one.parameters))


def _nothing(found: Variants) -> str:
    return "Only numerics were compared" if found.numerics else "Nothing was compared"


def _rejected_count(found: Variants) -> str:
    return f", {counting(len(found.rejections), 'variant')} rejected" if found.rejections else ""


def _places(found: Variants) -> list[Place]:
    """Every benchmark that has something to say, in the order of the suite."""
    verdicts = [contrast.verdict.series for contrast in found.contrasts]
    series = [*verdicts, *(one.series for one in found.numerics)]
    return list(dict.fromkeys((one.benchmark.name, _rest(one.parameters, found)) for one in series))


def _rest(parameters: Pairs, found: Variants) -> Pairs:
    return tuple((name, value) for name, value in parameters if name not in found.varied)


def _block(place: Place, found: Variants) -> str:
    benchmark, rest = place
    mine = [one for one in found.contrasts if _is_at(place, one.verdict.series.benchmark.name, one, found)]
    heading = printable(benchmark + "".join(f", {name}={unquoted(value)}" for name, value in rest), 200)
    metrics = list(dict.fromkeys(one.verdict.series.metric.name for one in mine))
    rows = [_row(one, found) for metric in metrics for one in mine if one.verdict.series.metric.name == metric]
    table = aligned(HEADINGS, rows, LEFT) if rows else ""
    lines = [*table.splitlines(), *_numerics(place, found)]
    return "\n".join([heading, *(f"  {line}" for line in lines)])


def _is_at(place: Place, benchmark: str, contrast: Contrast, found: Variants) -> bool:
    return (benchmark, _rest(contrast.verdict.series.parameters, found)) == place


def _row(contrast: Contrast, found: Variants) -> tuple[str, ...]:
    verdict = contrast.verdict
    base, head = level_texts((verdict.base_level, verdict.head_level), verdict.series.metric)
    return (
        verdict_glyph(verdict),
        printable(verdict.series.metric.name),
        variant_name(verdict.series.parameters, found.varied),
        base,
        head,
        "" if verdict.ratio is None else signed_percent(verdict.ratio - 1),
        _interval(verdict),
        str(verdict.pairs) if verdict.pairs else "",
        _said(verdict),
    )


def variant_name(parameters: Pairs, varied: Sequence[str]) -> str:
    """``flash``; ``flash, bf16`` where two parameters vary."""
    return ", ".join(printable(unquoted(value)) for name, value in parameters if name in varied)


def _interval(verdict: Verdict) -> str:
    if verdict.interval is None:
        return ""
    return "exact" if verdict.interval.lo == verdict.interval.hi else interval_text(verdict.interval)


def _said(verdict: Verdict) -> str:
    """The word, and what a reader needs beside it where there is no plain answer."""
    if verdict.kind is VerdictKind.INCONCLUSIVE and verdict.pairs_to_decide is not None:
        return f"{verdict_word(verdict)}: about {counting(verdict.pairs_to_decide, 'more pair')} would decide"
    if verdict.ratio is not None and verdict.kind is not VerdictKind.INCONCLUSIVE:
        return verdict_word(verdict)
    why = verdict.reason.partition(": ")[2] if verdict.ratio is not None else ""  # the numbers stand in the row
    return f"{verdict_word(verdict)}: {printable(why or verdict.reason, 200)}"


def _numerics(place: Place, found: Variants) -> Iterable[str]:
    """In which numbers a variant agrees with its baseline, and where that is not known."""
    mine = [one for one in found.numerics if (one.series.benchmark.name, _rest(one.series.parameters, found)) == place]
    for name in dict.fromkeys(variant_name(one.series.parameters, found.varied) for one in mine):
        own = [one for one in mine if variant_name(one.series.parameters, found.varied) == name]
        if agreeing := _metrics(own, Parity.AGREES):
            yield f"≈  {name} agrees with the baseline in {agreeing}"
        open_ones = [one for one in own if one.parity is Parity.UNDECIDED]
        yield from (f"?  {name}, undecided: {printable(one.told, 200)}" for one in open_ones)
        if _metrics(own, Parity.REJECTED):
            yield f"✕  {name} does not agree with the baseline in {_metrics(own, Parity.REJECTED)}"


def _metrics(numerics: Iterable[Numerics], parity: Parity) -> str:
    names = [printable(one.series.metric.name) for one in numerics if one.parity is parity]
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)
