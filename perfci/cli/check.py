"""``perfci check``: what is stored, judged by another policy, or reached again exactly as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import click

from perfci.cli.shared.context import current_config, open_store_to_read, write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.history.replay_comparisons import ReplayedVerdict, ReplayResult, replay_project
from perfci.history.verify_verdicts import VerdictDifference, VerificationResult, verify_verdicts
from perfci.model import ChangePoint, PerfciError
from perfci.policies import build_policy
from perfci.report.number_format import format_count, format_signed_percent
from perfci.verdicts.policy import Policy


@click.command("check")
@click.option(
    "--dry-run", is_flag=True, help="judge what is stored by the policy of today and show what would differ"
)
@click.option(
    "--replay", "exactly", is_flag=True, help="reach every stored verdict again and show what comes out else"
)
@json_option
@global_options
def command(dry_run: bool, replay_verdicts: bool, json_file: str | None) -> int:
    """Judge every stored comparison and history by the [judge] and [[policy]] of perfci.toml (--dry-run).

    Shows per series what was flagged and what would be now. Nothing is measured and no verdict is edited: those that
    are stored stand. Exit code 0 whatever is found.

    --replay takes every look of every verdict again, from the stored samples, by the rule it was reached by, with what
    was known then: all must be bit for bit the same. Exit code 1 where something is not.
    """
    if dry_run == replay_verdicts:
        raise PerfciError(
            "perfci check goes over what is stored and writes nothing: say perfci check --dry-run for the policy of "
            "today, or perfci check --replay for the rule each verdict was reached by"
        )
    config = current_config()
    with closing(open_store_to_read(config)) as store:
        if replay_verdicts:
            return print_verification(verify_verdicts(store, config.project), config.project, json_file)
        policy = build_policy(config)
        found = replay_project(store, config.project, policy)
    if json_file:
        write_json(json_file, serialize_replay(config.project, found, policy))
    if json_file != "-":
        click.echo("\n".join([*format_policy_changes(found), summarize_replay(found)]))
    return 0


def print_verification(verification: VerificationResult, project: str, json_file: str | None) -> int:
    if json_file:
        write_json(json_file, serialize_verification(verification, project))
    if json_file != "-":
        click.echo(
            "\n".join(
                [*map(format_difference, verification.differences), summarize_verification(verification)]
            )
        )
    return 1 if verification.differences else 0


def format_difference(difference: VerdictDifference) -> str:
    verdict = difference.record.verdict
    place = f"{verdict.series.label}  {verdict.base[:10]}..{verdict.head[:10]}"
    others = f" (reached by {difference.made_by})" if difference.is_by_other_version else ""
    return f"{place}  verdict {difference.record.id}: {difference.description}{others}"


def summarize_verification(verification: VerificationResult) -> str:
    reached = f"{format_count(verification.verified_count, 'verdict')} reached again from the stored samples"
    wrong = len({one.record.id for one in verification.differences})
    told = f"{wrong} of them came out differently" if wrong else "bit for bit the same"
    before = (
        f"; of {verification.unverifiable_count} older ones the looks were not stored"
        if verification.unverifiable_count
        else ""
    )
    return f"{reached}: {told}{before}"


def serialize_verification(verification: VerificationResult, project: str) -> dict[str, Any]:
    return {
        "project": project,
        "verdicts_reached_again": verification.verified_count,
        "verdicts_without_looks": verification.unverifiable_count,
        "differences": [
            {
                "verdict": one.record.id,
                "series": one.record.verdict.series.label,
                "base": one.record.verdict.base,
                "head": one.record.verdict.head,
                "what": one.description,
                "made_by": one.made_by,
            }
            for one in verification.differences
        ],
    }


def format_policy_changes(result: ReplayResult) -> Iterator[str]:
    """A line for every verdict and every change point that would be another."""
    for verdict in result.verdicts:
        if verdict.is_different:
            stored, now = verdict.stored, verdict.replayed
            place = f"{stored.series.label}  {stored.base[:10]}..{stored.head[:10]}"
            after = f"{now.kind}: {now.reason}" if now else "not judged"
            yield f"{place}  {stored.kind} ({stored.stage}) -> {after}"
    for history in result.histories:
        for change, word in [*((c, "gone") for c in history.removed), *((c, "new") for c in history.added)]:
            yield f"{history.series.label}  {change.commit[:10]}  change point {format_signed_percent(change.relative_change)} {word}"


def summarize_replay(result: ReplayResult) -> str:
    verdicts = sum(verdict.is_different for verdict in result.verdicts)
    histories = sum(history.is_different for history in result.histories)
    replayed = f"{format_count(len(result.verdicts), 'verdict')} and {format_count(len(result.histories), 'series', 'series')} replayed"
    if not verdicts and not histories:
        return f"{replayed}: this policy says the same of all of them"
    return f"{replayed}: {verdicts} and {histories} of them would differ; what is stored stands"


def serialize_replay(project: str, result: ReplayResult, policy: Policy) -> dict[str, Any]:
    return {
        "project": project,
        "verdicts_replayed": len(result.verdicts),
        "histories_replayed": len(result.histories),
        "verdicts": [_serialize_verdict(one, policy) for one in result.verdicts if one.is_different],
        "change_points": [
            {
                "series": one.series.label,
                "gone": _serialize_changes(one.removed),
                "new": _serialize_changes(one.added),
            }
            for one in result.histories
            if one.is_different
        ],
    }


def _serialize_verdict(replayed: ReplayedVerdict, policy: Policy) -> dict[str, Any]:
    stored, now, rule = replayed.stored, replayed.replayed, policy.rule_for(replayed.stored.series)
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
        "exact_bar": rule.effective_exact_bar,
        "floor": rule.floor,
    }


def _serialize_changes(changes: list[ChangePoint]) -> list[dict[str, Any]]:
    return [
        {"commit": change.commit, "last_good": change.last_good, "relative_change": change.relative_change}
        for change in changes
    ]
