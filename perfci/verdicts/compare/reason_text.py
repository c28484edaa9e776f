"""Why a verdict is what it is, in plain words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from perfci.model import Process, Stage, Status, Verdict, VerdictKind
from perfci.verdicts.number_format import percent
from perfci.verdicts.process_levels import disqualifying_flags, flagged
from perfci.verdicts.rule import Rule


def sentence(verdict: Verdict, rule: Rule, bar: float) -> str:
    """Say in one plain sentence what was seen and why the verdict follows."""
    told = f"{percent(verdict.ratio or 1.0)} over {verdict.pairs} pair{'s' if verdict.pairs != 1 else ''}"
    if verdict.interval is None:
        more = how_many_more(verdict.pairs_to_decide)
        return f"{told}: a single pair has no interval, so nothing can be said yet; {more}."
    told += f", interval {percent(verdict.interval.lo)} to {percent(verdict.interval.hi)}"
    return f"{told}: {_why(verdict, rule, bar)}."


def _why(verdict: Verdict, rule: Rule, bar: float) -> str:
    if verdict.kind is VerdictKind.UNCHANGED:
        return f"inside the bar of {rule.bar:.1%}{rule.named} either way"
    if verdict.kind is VerdictKind.INCONCLUSIVE:
        inside = "it" if math.isclose(bar, rule.bar) else f"{rule.bar:.1%}"
        more = how_many_more(verdict.pairs_to_decide)
        return f"neither beyond the bar of {bar:.1%}{rule.named} nor inside {inside}, {more}"
    if verdict.stage is Stage.SCREENING:
        return f"beyond the bar of {bar:.1%}{rule.named}, to be confirmed on fresh pairs"
    return f"beyond the bar of {bar:.1%}{rule.named}, and {'all of it' if rule.strict else 'half of it'} is excluded"


def how_many_more(pairs: int | None) -> str:
    """What would decide; None where nothing would."""
    if pairs is None:
        return "too close to the bar for more pairs to settle"
    return f"about {pairs} more pair{'s' if pairs != 1 else ''} would decide"


def how_it_failed(side: Sequence[Process]) -> str:
    """How the first of its failed processes ended."""
    failed = next(process for process in side if process.status not in (Status.OK, Status.SKIPPED))
    return f"ended as {failed.status.value}" + (f" ({failed.reason})" if failed.reason else "")


def why_nothing(side: Sequence[Process]) -> str:
    """Why a side has no usable process."""
    if not side:
        return "was not measured"
    if all(process.status is Status.SKIPPED for process in side):
        return f"was skipped ({side[0].reason or 'no reason given'})"
    return how_it_failed(side)


def with_left_out(verdict: Verdict, base: Sequence[Process], head: Sequence[Process]) -> Verdict:
    """The same verdict, which also says what was not judged."""
    told = left_out(base, head)
    return replace(verdict, reason=f"{verdict.reason} Not judged: {told}.") if told else verdict


def left_out(base: Sequence[Process], head: Sequence[Process]) -> str:
    """How many processes were measured for nothing, and what is known against them; empty for none."""
    suspect = flagged([*base, *head])
    if not suspect:
        return ""
    why = list(dict.fromkeys(flag for process in suspect for flag in disqualifying_flags(process)))
    more = f" and {len(why) - FLAGS_SHOWN} more" if len(why) > FLAGS_SHOWN else ""
    return f"{len(suspect)} of {len(base) + len(head)} processes, flagged {'; '.join(why[:FLAGS_SHOWN])}{more}"


FLAGS_SHOWN = 2
