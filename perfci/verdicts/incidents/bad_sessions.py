"""Bad days of a machine: many alerts of one session that no change of code would give.

A commit that slows a program slows it: of the changes MongoDB confirmed in a year 63 were regressions and 17
improvements (ICPE 2020), so even commits taken together have one in five against the tide. And what a commit did is
still there in the next run. A session whose alerts point both ways alike, or are gone when the next run looks, had
something the matter with its machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import bdtrc

from perfci.model import Machine, Series

AGAINST_THE_TIDE = 17 / 80
"""The share of alerts in the rarer direction that changes of code give (see above)."""

GONE = 0.05
"""The share of true jumps that the next run misses: the size bar makes it few (power at 8 to 10 %, study, 4)."""

LEVEL = 0.05
"""Code is ruled out where it would give such alerts in fewer than one of twenty sessions: the usual level."""

MIN_ALERTS = 4
"""Fewer are looked at one by one: fresh pairs for three cost less than an explanation."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A series that stood out in a session; ``stays`` whether the next run saw it as well, where there was one."""

    series: Series
    session: str
    worse: bool
    stays: bool | None = None


@dataclass(frozen=True, slots=True)
class BadDay:
    """A session on a machine whose alerts no code explains: ``balanced`` in sign, ``rotating``, or both."""

    session: str
    machine: Machine
    alerts: int
    worse: int
    gone: int
    balanced: bool
    rotating: bool


def bad_days(alerts: Sequence[Alert]) -> list[BadDay]:
    """The sessions that had something the matter with their machine, by name."""
    together: dict[tuple[str, Machine], list[Alert]] = defaultdict(list)
    for alert in alerts:
        together[alert.session, alert.series.machine].append(alert)
    found = [_bad_day(session, machine, mine) for (session, machine), mine in together.items()]
    bad = [day for day in found if day.alerts >= MIN_ALERTS and (day.balanced or day.rotating)]
    return sorted(bad, key=lambda day: (day.session, day.machine.label))


def _bad_day(session: str, machine: Machine, alerts: Sequence[Alert]) -> BadDay:
    worse = sum(alert.worse for alert in alerts)
    looked_at = [alert for alert in alerts if alert.stays is not None]
    gone = sum(alert.stays is False for alert in looked_at)
    rarer = min(worse, len(alerts) - worse)
    return BadDay(
        session,
        machine,
        len(alerts),
        worse,
        gone,
        balanced=_at_least(rarer, len(alerts), AGAINST_THE_TIDE) <= LEVEL,
        rotating=2 * gone > len(looked_at) and _at_least(gone, len(looked_at), GONE) <= LEVEL,
    )


def _at_least(count: int, of: int, share: float) -> float:
    """The chance of so many or more of them, each with this chance: an exact binomial test (Clopper & Pearson 1934)."""
    return float(bdtrc(count - 1, of, share))
