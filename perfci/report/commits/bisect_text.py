"""What a search for the commit that moved a benchmark conclusion, in sentences."""

from __future__ import annotations

import math
from typing import Any

from perfci.model import Commit
from perfci.number_format import format_count, format_duration, format_percent, format_signed_percent
from perfci.report.escaping import make_printable
from perfci.stats.change_location import StepSize
from perfci.verdicts.search.bisect_status import BisectStatus
from perfci.verdicts.search.commit_search import SearchOutcome

MAX_RANKED_COMMITS = 5
MAX_SUBJECT = 80


def format_bisect_progress(status: BisectStatus) -> str:
    """One line after a process: what it cost so far, and whom it points at."""
    if len(status.measured) <= 2:
        return f"  {_format_cost(status)}: the ends of the range are compared"
    leaders = [row for row in status.ranked_commits[:3] if row[1] >= 0.05]
    likely = ", ".join(f"{commit.short_sha} {format_percent(share)}" for commit, share in leaders)
    return f"  {_format_cost(status)}: {likely or 'no commit stands out yet'}"


def format_bisect_result(status: BisectStatus) -> str:
    """The question, the conclusion with its certainty, what it cost, and what could not be measured."""
    lines = [
        f"{status.benchmark} {status.metric.name}: "
        f"{format_count(len(status.commits) - 1, 'commit')} after {_name(status.commits[0])}",
        *_format_finding(status),
        _format_cost(status),
    ]
    for sha, reason in status.failures.items():
        lines.append(f"{sha[:10]} could not be measured: {make_printable(reason, 200)}")
    return "\n".join(lines)


def serialize_bisect(status: BisectStatus) -> dict[str, Any]:
    """The same as fields: ``outcome`` is null while the search is not over."""
    conclusion = status.conclusion
    commits = status.commits
    return {
        "benchmark": status.benchmark,
        "metric": status.metric.name,
        "base": commits[0].sha,
        "head": commits[-1].sha,
        "outcome": conclusion.outcome.value if conclusion else None,
        "after": commits[conclusion.first].sha if conclusion else None,
        "commit": commits[conclusion.last].sha if conclusion else None,
        "probability": conclusion.probability if conclusion else None,
        "change": math.expm1(conclusion.size.median) if conclusion else None,
        "interval": [math.expm1(conclusion.size.lo), math.expm1(conclusion.size.hi)] if conclusion else None,
        "candidates": [
            {"commit": commit.sha, "probability": share}
            for commit, share in status.ranked_commits
            if share >= 0.001
        ],
        "commits": len(commits) - 1,
        "commits_left": status.commits_left,
        "processes": status.processes,
        "commits_measured": len(status.measured),
        "machine_s": status.machine_s,
        "unmeasurable": status.failures,
        "session": status.session,
    }


def _format_finding(status: BisectStatus) -> list[str]:
    conclusion, commits = status.conclusion, status.commits
    if conclusion is None:
        return ["Not decided yet: the same command goes on from here.", *_format_ranked_commits(status)]
    change, certainty = _format_step(conclusion.size), format_certainty(conclusion.probability)
    first, last = commits[conclusion.first], commits[conclusion.last]
    match conclusion.outcome:
        case SearchOutcome.NAMED:
            by = f" by {make_printable(last.author, 80)}" if last.author else ""
            return [f"{_name(last)}{by} moved it by {change}, {certainty}."]
        case SearchOutcome.NARROWED:
            count = format_count(conclusion.last - conclusion.first, "commit")
            place = f"between {_name(first)} and {_name(last)}"
            return [
                f"One of {count} moved it by {change}, {certainty}: {place}.",
                *_format_ranked_commits(status),
            ]
        case SearchOutcome.UNCONFIRMED:
            doubt = "but more processes of it and of the commit before it did not confirm that"
            return [f"{_name(last)} is the likeliest, {certainty}, {doubt}.", *_format_ranked_commits(status)]
        case SearchOutcome.SPREAD:
            return [f"No single commit moved it: {change} is spread over several of them."]
        case SearchOutcome.NO_DIFFERENCE:
            return [
                f"The ends of the range do not differ clearly: {change}, {certainty} that they are equal."
            ]


def _format_ranked_commits(status: BisectStatus) -> list[str]:
    rows = [row for row in status.ranked_commits[:MAX_RANKED_COMMITS] if row[1] >= 0.01]
    return [f"  {format_percent(share):>7}  {_name(commit)}" for commit, share in rows]


def _format_step(size: StepSize) -> str:
    return format_change(*map(math.expm1, (size.median, size.lo, size.hi)))


def format_change(change: float, lo: float, hi: float) -> str:
    """Format ``+10.4 % [+8.6, +12.1]``."""
    middle, low, high = map(format_signed_percent, (change, lo, hi))
    return f"{middle} [{low.removesuffix(' %')}, {high.removesuffix(' %')}]"


def format_certainty(probability: float) -> str:
    """A posterior close to 1 is worth no more digits than its model."""
    return "more than 99 % certain" if probability > 0.99 else f"{100 * probability:.0f} % certain"


def _format_cost(status: BisectStatus) -> str:
    processes = format_count(status.processes, "process", "processes")
    measured = format_count(len(status.measured), "commit")
    return f"{processes} of {measured}, {format_duration(status.machine_s)} of machine time"


def _name(commit: Commit) -> str:
    subject = make_printable(commit.subject, MAX_SUBJECT)
    return f'{commit.short_sha} "{subject}"' if subject else commit.short_sha
