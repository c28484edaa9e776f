"""``perfci check``: what is stored, judged by another policy, or reached again exactly as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import click

from perfci.cli.shared.context import config_here, store_to_read, write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.history.replay_comparisons import Replay, ReplayedVerdict, replay
from perfci.history.verify_verdicts import Difference, Repetition, repeat
from perfci.model import ChangePoint, PerfciError
from perfci.policies import policy_of
from perfci.report.number_format import counting, signed_percent
from perfci.verdicts.policy import Policy


@click.command("check")
@click.option("--dry-run", is_flag=True, help="judge what is stored by the policy of today and show what would differ")
@click.option("--replay", "exactly", is_flag=True, help="reach every stored verdict again and show what comes out else")
@json_option
@global_options
def command(dry_run: bool, exactly: bool, json_file: str | None) -> int:
    """Judge every stored comparison and history by the [judge] and [[policy]] of perfci.toml (--dry-run).

    Shows per series what was flagged and what would be now. Nothing is measured and no verdict is edited: those that
    are stored stand. Exit code 0 whatever is found.

    --replay takes every look of every verdict again, from the stored samples, by the rule it was reached by, with what
    was known then: all must be bit for bit the same. Exit code 1 where something is not.
    """
    if dry_run == exactly:
        raise PerfciError(
            "perfci check goes over what is stored and writes nothing: say perfci check --dry-run for the policy of "
            "today, or perfci check --replay for the rule each verdict was reached by"
        )
    config = config_here()
    with closing(store_to_read(config)) as store:
        if exactly:
            return report_repetition(repeat(store, config.project), config.project, json_file)
        policy = policy_of(config)
        found = replay(store, config.project, policy)
    if json_file:
        write_json(json_file, as_json(config.project, found, policy))
    if json_file != "-":
        click.echo("\n".join([*told(found), summary(found)]))
    return 0


def report_repetition(found: Repetition, project: str, json_file: str | None) -> int:
    if json_file:
        write_json(json_file, repetition_json(found, project))
    if json_file != "-":
        click.echo("\n".join([*map(difference_line, found.differences), repetition_summary(found)]))
    return 1 if found.differences else 0


def difference_line(one: Difference) -> str:
    verdict = one.record.verdict
    place = f"{verdict.series.label}  {verdict.base[:10]}..{verdict.head[:10]}"
    others = f" (reached by {one.made_by})" if one.by_others else ""
    return f"{place}  verdict {one.record.id}: {one.what}{others}"


def repetition_summary(found: Repetition) -> str:
    reached = f"{counting(found.repeated, 'verdict')} reached again from the stored samples"
    wrong = len({one.record.id for one in found.differences})
    told = f"{wrong} of them came out differently" if wrong else "bit for bit the same"
    before = f"; of {found.untold} older ones the looks were not stored" if found.untold else ""
    return f"{reached}: {told}{before}"


def repetition_json(found: Repetition, project: str) -> dict[str, Any]:
    return {
        "project": project,
        "verdicts_reached_again": found.repeated,
        "verdicts_without_looks": found.untold,
        "differences": [
            {
                "verdict": one.record.id,
                "series": one.record.verdict.series.label,
                "base": one.record.verdict.base,
                "head": one.record.verdict.head,
                "what": one.what,
                "made_by": one.made_by,
            }
            for one in found.differences
        ],
    }


def told(found: Replay) -> Iterator[str]:
    """A line for every verdict and every change point that would be another."""
    for verdict in found.verdicts:
        if verdict.differs:
            stored, now = verdict.stored, verdict.now
            place = f"{stored.series.label}  {stored.base[:10]}..{stored.head[:10]}"
            after = f"{now.kind}: {now.reason}" if now else "not judged"
            yield f"{place}  {stored.kind} ({stored.stage}) -> {after}"
    for history in found.histories:
        for change, word in [*((c, "gone") for c in history.gone), *((c, "new") for c in history.new)]:
            yield f"{history.series.label}  {change.commit[:10]}  change point {signed_percent(change.rel)} {word}"


def summary(found: Replay) -> str:
    verdicts = sum(verdict.differs for verdict in found.verdicts)
    histories = sum(history.differs for history in found.histories)
    replayed = (
        f"{counting(len(found.verdicts), 'verdict')} and {counting(len(found.histories), 'series', 'series')} replayed"
    )
    if not verdicts and not histories:
        return f"{replayed}: this policy says the same of all of them"
    return f"{replayed}: {verdicts} and {histories} of them would differ; what is stored stands"


def as_json(project: str, found: Replay, policy: Policy) -> dict[str, Any]:
    return {
        "project": project,
        "verdicts_replayed": len(found.verdicts),
        "histories_replayed": len(found.histories),
        "verdicts": [_verdict(one, policy) for one in found.verdicts if one.differs],
        "change_points": [
            {"series": one.series.label, "gone": _changes(one.gone), "new": _changes(one.new)}
            for one in found.histories
            if one.differs
        ],
    }


def _verdict(one: ReplayedVerdict, policy: Policy) -> dict[str, Any]:
    stored, now, rule = one.stored, one.now, policy.rule_for(one.stored.series)
    return {
        "series": stored.series.label,
        "base": stored.base,
        "head": stored.head,
        "stage": stored.stage,
        "stored": stored.kind,
        "now": now.kind if now else None,
        "reason": now.reason if now else "not judged",
        "class": policy.class_of(stored.series),
        "bar": rule.bar,
        "exact_bar": rule.counted_bar,
        "floor": rule.floor,
    }


def _changes(changes: list[ChangePoint]) -> list[dict[str, Any]]:
    return [{"commit": change.commit, "last_good": change.last_good, "rel": change.rel} for change in changes]
