"""Incidents in words: what moved, since when, who is suspected or what explains it, and what to do next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

from perfci.model import ChangePoint, Commit, Incident, IncidentKind, ObservedChange, Retest
from perfci.report.escaping import printable, series_name
from perfci.report.number_format import counting, signed_percent
from perfci.report.verdict_labels import Tone
from perfci.report.verdict_sentences import interval_text, moved
from perfci.verdicts.history.release_creep import Creep
from perfci.verdicts.incidents.page_budget import Say, Told
from perfci.verdicts.incidents.step_causes import cost_of, follows

MOST_OBSERVED = 4
"""Values of an environment that are named; who upgrades a machine changes many at once."""

TONES: dict[IncidentKind, Tone] = {
    IncidentKind.REGRESSION: "worse",
    IncidentKind.IMPROVEMENT: "better",
    IncidentKind.MIXED: "worse",
    IncidentKind.ENVIRONMENT: "unsure",
    IncidentKind.MACHINE: "unsure",
    IncidentKind.RESOLVED: "same",
}

GLYPHS = {
    IncidentKind.REGRESSION: "▲",
    IncidentKind.IMPROVEMENT: "▼",
    IncidentKind.MIXED: "◆",
    IncidentKind.ENVIRONMENT: "⚙",
    IncidentKind.MACHINE: "⌂",
    IncidentKind.RESOLVED: "✓",
}

Commits = Mapping[str, Commit]


def headline(incident: Incident, commits: Commits) -> str:
    """What moved, and where: ``2 series got worse at 3f2a9c8 Fuse the optimizer step``."""
    return f"{_what(incident)} {_where(incident, commits)}"


def explanation(incident: Incident, commits: Commits) -> str:
    """Why no commit is blamed, or how sure it is that one is; one or two sentences."""
    if incident.kind is IncidentKind.ENVIRONMENT:
        return _environment(incident)
    if incident.kind is IncidentKind.RESOLVED:
        return f"It went away with {_named(incident.until, commits)}, so nobody was asked."
    if incident.kind is IncidentKind.MACHINE:
        return MACHINE_CAUSES[incident.cause].format(sessions=_sessions(incident))
    if incident.convicted:
        some = incident.convicted < len(incident.members)
        of = f" in {incident.convicted} of {len(incident.members)} series" if some else ""
        return f"Confirmed on fresh pairs{of}."
    return "Seen in the history alone; fresh pairs would confirm it." if incident.settled else ""


MACHINE_CAUSES = {
    "states": "The level keeps returning to values it had before: a state of the machine, no change.",
    "refuted": "Fresh pairs of the same two commits show no change: the machine moved, not the code.",
    "canary": "A canary that no commit touches moved alike.",
    "most": "Most series of this machine moved alike, in suites that have nothing to do with each other.",
    "bad day": "So many alerts both ways come from no commit: something was the matter with the machine in {sessions}.",
    "rotating": "The next run saw most of it no more: something was the matter with the machine in {sessions}.",
}


def largest(incident: Incident) -> str:
    """The largest move of an incident in the words of its unit."""
    return member(incident.members[0])


def member(change: ChangePoint) -> str:
    metric = change.series.metric
    if change.before > 0:
        return f"{series_name(change.series)} {moved(1 + change.rel, metric)}"
    return f"{series_name(change.series)} went from {change.before:g} to {change.after:g}"


def observed_sentence(change: ObservedChange) -> str:
    """``torch 2.12.1 → 2.13.0``; what was not observed on one side says so."""
    before, after = (printable(value, 60) or "not known" for value in (change.before, change.after))
    return f"{printable(change.name, 40)} {before} → {after}"


def standing(told: Told, pages_per_week: int) -> str:
    """What is done about an incident, and why not more."""
    week = f"in week {told.week}" if told.week else "in runs without a date"
    if told.announced:
        return "as announced: nobody is asked"
    if told.say is Say.PAGE:
        gone = "" if told.incident.standing else "; made good since"
        return f"alert {told.page} of at most {pages_per_week} {week}{gone}"
    return {
        Say.HELD_BACK: f"held back: {_spent(pages_per_week)} {week}",
        Say.WEAK: f"held back: too weak to tell from chance among so many series {week}",
        Say.WAITING: "waiting for a third point or fresh pairs",
        Say.NOTE: "a note: nobody is asked",
    }[told.say]


def announced(told: Told) -> str:
    """What was said beforehand of what got worse, and what of that is more; nothing where nothing was."""
    if told.answer is None:
        return ""
    sources = ", ".join(dict.fromkeys(printable(one.source, 60) for one in told.answer.arrived))
    if told.answer.covers:
        reasons = "; ".join(dict.fromkeys(printable(one.announcement.reason) for one in told.answer.arrived))
        return f"announced in {sources}: {reasons}"
    largest = told.answer.beyond[0]
    said = [one.announcement.change for one in told.answer.arrived if one.announcement.names(largest.series)]
    size = f", which announced {signed_percent(max(said, key=abs))}" if said else ""
    return f"more than announced in {sources}{size}: {member(largest)}"


def _spent(pages: int) -> str:
    return f"all {pages} alerts were spent" if pages > 1 else "the one alert was spent" if pages else "none is wanted"


def suspect_lines(incident: Incident) -> list[str]:
    """Commits, the likeliest first, each with how many of the series point at it."""
    several = len(incident.suspects) > 1 or len(incident.members) > 1
    return [
        " · ".join(
            [
                f"{one.commit.sha[:10]} {printable(one.commit.subject, 90)}".strip(),
                *([printable(one.commit.author, 60)] if one.commit.author else []),
                *([f"{counting(one.members, 'series', 'series')} point at it"] if several else []),
            ]
        )
        for one in incident.suspects
    ]


def measure_command(incident: Incident) -> str:
    """The pair of commits that would tell more, as a command; empty where nothing is left to ask."""
    if incident.measure is None:
        return ""
    return compare_command(*incident.measure, (change.series.cell for change in incident.members))


def retest_sentence(retest: Retest) -> str:
    return f"{series_name(retest.series)}: {retest.reason}"


def retest_command(retest: Retest) -> str:
    return compare_command(retest.base, retest.head, [retest.series.cell])


def creep_sentence(creep: Creep) -> str:
    """How far a series drifted since a release, and how much of what it lost the steps explain."""
    interval = f" {interval_text(creep.interval)}" if creep.interval else ""
    how = "by fresh pairs" if creep.paired else "by the points around both"
    told = (
        f"{series_name(creep.series)} drifted {signed_percent(creep.drift - 1)}{interval} since {creep.release}, {how}"
    )
    if abs(creep.total / creep.drift - 1) < 5e-4:
        return f"{told}; no change point shows it"
    return f"{told}; its change points explain the rest of {signed_percent(creep.total - 1)}"


def creep_command(creep: Creep) -> str:
    return compare_command(creep.base, creep.head, [creep.series.cell])


MOST_CELLS = 5
"""Cells that a command names; of more the largest few are measured first."""


def compare_command(base: str, head: str, cells: Iterable[str]) -> str:
    """``perfci compare BASE HEAD --bench REGEX`` for the cells in question."""
    names = list(dict.fromkeys(cells))[:MOST_CELLS]
    pattern = "|".join(f"^{re.escape(name)}$" for name in names)
    return f"perfci compare {base[:10]} {head[:10]} --bench {shlex.quote(pattern)}"


SECTIONS: tuple[tuple[str, Callable[[Told], bool]], ...] = (
    ("Open", lambda told: told.open),
    ("Held back", lambda told: told.say in (Say.HELD_BACK, Say.WEAK)),
    ("Waiting", lambda told: told.say is Say.WAITING),
    ("Settled or noted", lambda told: True),
)


def sections(told: Sequence[Told]) -> list[tuple[str, list[Told]]]:
    """Every incident in the first section that fits, so that nothing is lost; open ones by their evidence."""
    found, left = [], sorted(told, key=_urgency)
    for title, fits in SECTIONS:
        mine = [one for one in left if fits(one)]
        left = [one for one in left if not fits(one)]
        found += [(title, mine)] if mine else []
    return found


def _urgency(told: Told) -> tuple[object, ...]:
    """Confirmed ones first, then the clearest; what is not open keeps its order, newest first."""
    incident = told.incident
    return (not incident.convicted, incident.p_value, -len(incident.members)) if told.open else (True, 2.0, 0)


def summary(told: Sequence[Told], retests: int, creeps: int) -> str:
    """``2 open incidents, 1 held back, 3 notes; 1 retest is due``."""
    opened = sum(one.open for one in told)
    held = sum(one.say in (Say.HELD_BACK, Say.WEAK) for one in told)
    waiting = sum(one.say is Say.WAITING for one in told)
    rest = len(told) - opened - held - waiting
    return summary_of({"open": opened, "held": held, "waiting": waiting, "rest": rest}, retests, creeps)


def summary_of(counts: Mapping[str, int], retests: int, creeps: int) -> str:
    """The same of incidents that were counted elsewhere, each under one heading."""
    parts = [counting(counts["open"], "open incident") if counts["open"] else "No open incident"]
    headings = {"held": "held back", "waiting": "waiting", "snoozed": "snoozed", "rest": "settled or noted"}
    parts += [f"{counts[name]:,} {words}" for name, words in headings.items() if counts.get(name)]
    parts += [f"{counting(retests, 'retest')} due"] if retests else []
    parts += [f"{counting(creeps, 'series', 'series')} creeping"] if creeps else []
    return ", ".join(parts)


def _what(incident: Incident) -> str:
    count = len({change.series for change in incident.members})
    worse = len({change.series for change in incident.members if cost_of(change) > 0})
    series = counting(count, "series", "series")
    if incident.kind is IncidentKind.REGRESSION:
        return f"{series} got worse"
    if incident.kind is IncidentKind.IMPROVEMENT:
        return f"{series} got better"
    if incident.kind is IncidentKind.MIXED:
        return f"{counting(worse, 'series', 'series')} got worse and {count - worse:,} better"
    if incident.kind is IncidentKind.ENVIRONMENT:
        return f"{series} moved with the environment"
    if incident.kind is IncidentKind.RESOLVED:
        return f"{series} moved and came back"
    return f"{series} moved with the machine"


def _where(incident: Incident, commits: Commits) -> str:
    good, last = commits.get(incident.last_good), commits.get(incident.commit)
    if last and (incident.last_good in last.parents or (good and follows(good, last))):
        return f"at {_named(incident.commit, commits)}"
    return f"after {incident.last_good[:10]} and not later than {_named(incident.commit, commits)}"


def _named(sha: str, commits: Commits) -> str:
    commit = commits.get(sha)
    return f"{sha[:10]} {printable(commit.subject, 90)}".strip() if commit else sha[:10]


def _environment(incident: Incident) -> str:
    shown = [observed_sentence(one) for one in incident.observed[:MOST_OBSERVED]]
    more = len(incident.observed) - len(shown)
    values = "; ".join([*shown, *([f"and {more} more"] if more > 0 else [])])
    if incident.ambiguous:
        return (
            f"{values}. No commit is blamed, none is cleared: the commits between were measured in neither "
            "environment, or the step may lie beside the change. The two ends measured as pairs would tell."
        )
    return f"{values}. No commit is blamed."


def _sessions(incident: Incident) -> str:
    named = [printable(session, 60) for session in incident.sessions[:2]]
    more = len(incident.sessions) - len(named)
    return f"{'session' if len(incident.sessions) == 1 else 'sessions'} {', '.join(named)}" + (
        f" and {more} more" if more > 0 else ""
    )
