"""``perfci check``: re-judge stored results by the current policy, or recompute stored verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import click

from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.cli.shared.repository_and_config import current_config
from perfci.cli.shared.store_and_machine_lock import open_store_to_read
from perfci.history.rejudge_with_policy import RejudgedVerdict, RejudgingResult, rejudge_with_policy
from perfci.history.verify_stored_verdicts import (
    VerdictDifference,
    VerificationResult,
    verify_stored_verdicts,
)
from perfci.model import ChangePoint, PerfciError
from perfci.number_format import format_count, format_signed_percent
from perfci.project_policies import build_policy
from perfci.report.serializers import serialize_change_size
from perfci.verdicts.judging_policy import Policy


@click.command("check")
@click.option(
    "--dry-run", is_flag=True, help="re-judge stored results by the current policy and show the differences"
)
@click.option(
    "--replay",
    "recompute",
    is_flag=True,
    help="recompute every stored verdict and show any that differ",
)
@json_option
@global_options
def check_command(dry_run: bool, recompute: bool, json_file: str | None) -> int:
    """Re-judge every stored comparison and history by [judge] and [[policy]] of perfci.toml (--dry-run).

    Shows per series the stored and the new verdict. Nothing is measured or changed. Always exits 0.

    --replay recomputes every interim look of every verdict from the stored samples, with the rule and the
    priors of that time; the results must be identical bit for bit. Exit code 1 if one is not.
    """
    if dry_run == recompute:
        raise PerfciError(
            "perfci check needs --dry-run (judge by the current policy) or --replay (recompute by the "
            "original rules)"
        )
    config = current_config()
    with closing(open_store_to_read(config)) as store:
        if recompute:
            verification = verify_stored_verdicts(store, config.project)
            print_recomputation(verification, config.project, json_file)
            return 1 if verification.differences else 0
        policy = build_policy(config.settings)
        result = rejudge_with_policy(store, config.project, policy)
    if json_file:
        write_json(json_file, serialize_rejudging(config.project, result, policy))
    if json_file != "-":
        click.echo("\n".join([*format_rejudged_differences(result), summarize_rejudging(result)]))
    return 0


def print_recomputation(verification: VerificationResult, project: str, json_file: str | None) -> None:
    """Print recomputed verdicts that differ."""
    if json_file:
        write_json(json_file, serialize_recomputation(verification, project))
    if json_file != "-":
        for difference in verification.differences:
            click.echo(format_recomputed_difference(difference))
        click.echo(summarize_recomputation(verification))


def format_recomputed_difference(difference: VerdictDifference) -> str:
    """One line: series, commits, verdict and what differs."""
    verdict = difference.record.verdict
    place = f"{verdict.series.label}  {verdict.base[:10]}..{verdict.head[:10]}"
    others = f" (computed by {difference.made_by})" if difference.is_by_other_version else ""
    return f"{place}  verdict {difference.record.id}: {difference.description}{others}"


def summarize_recomputation(verification: VerificationResult) -> str:
    """One line: how many verdicts were recomputed, and how many differ."""
    recomputed = f"{format_count(verification.verified_count, 'verdict')} recomputed from stored samples"
    wrong = len({difference.record.id for difference in verification.differences})
    result = f"{wrong} of them differ" if wrong else "identical"
    older = ""
    if verification.unverifiable_count:
        older = f"; {verification.unverifiable_count} older ones have no stored looks"
    return f"{recomputed}: {result}{older}"


def serialize_recomputation(verification: VerificationResult, project: str) -> dict[str, Any]:
    """The recomputed verdicts as plain JSON values."""
    return {
        "project": project,
        "verdicts_recomputed": verification.verified_count,
        "verdicts_without_looks": verification.unverifiable_count,
        "differences": [
            {
                "verdict": difference.record.id,
                "series": difference.record.verdict.series.label,
                "base": difference.record.verdict.base,
                "head": difference.record.verdict.head,
                "difference": difference.description,
                "produced_by": difference.made_by,
            }
            for difference in verification.differences
        ],
    }


def format_rejudged_differences(result: RejudgingResult) -> Iterator[str]:
    """One line for every verdict and change point that would differ."""
    for verdict in result.verdicts:
        if verdict.is_different:
            stored, now = verdict.stored, verdict.rejudged
            place = f"{stored.series.label}  {stored.base[:10]}..{stored.head[:10]}"
            after = f"{now.kind}: {now.reason}" if now else "not judged"
            yield f"{place}  {stored.kind} ({stored.stage}) -> {after}"
    for history in result.histories:
        for word, changes in (("gone", history.removed_change_points), ("new", history.added_change_points)):
            for change in changes:
                size = format_signed_percent(change.relative_change)
                yield f"{history.series.label}  {change.commit[:10]}  change point {size} {word}"


def summarize_rejudging(result: RejudgingResult) -> str:
    """One line: how many verdicts and histories were re-judged, and how many would differ."""
    verdicts = sum(verdict.is_different for verdict in result.verdicts)
    histories = sum(history.is_different for history in result.histories)
    series_count = format_count(len(result.histories), "series", "series")
    rejudged = f"{format_count(len(result.verdicts), 'verdict')} and {series_count} re-judged"
    if not verdicts and not histories:
        return f"{rejudged}: this policy gives the same result for all of them"
    return f"{rejudged}: {verdicts} and {histories} of them would differ; stored verdicts are unchanged"


def serialize_rejudging(project: str, result: RejudgingResult, policy: Policy) -> dict[str, Any]:
    """The differences as plain JSON values."""
    return {
        "project": project,
        "verdicts_replayed": len(result.verdicts),
        "histories_replayed": len(result.histories),
        "verdicts": [
            _serialize_verdict(verdict, policy) for verdict in result.verdicts if verdict.is_different
        ],
        "change_points": [
            {
                "series": history.series.label,
                "removed": _serialize_changes(history.removed_change_points),
                "new": _serialize_changes(history.added_change_points),
            }
            for history in result.histories
            if history.is_different
        ],
    }


def _serialize_verdict(rejudged: RejudgedVerdict, policy: Policy) -> dict[str, Any]:
    stored, now, rule = rejudged.stored, rejudged.rejudged, policy.rule_for(rejudged.stored.series)
    return {
        "series": stored.series.label,
        "base": stored.base,
        "head": stored.head,
        "stage": stored.stage,
        "stored": stored.kind,
        "now": now.kind if now else None,
        "reason": now.reason if now else "not judged",
        "class": policy.metric_class_of(stored.series),
        "bar": rule.bar,
        "exact_bar": rule.effective_exact_bar,
        "floor": rule.floor,
    }


def _serialize_changes(changes: list[ChangePoint]) -> list[dict[str, Any]]:
    return [
        {"commit": change.commit, "last_good": change.last_good, **serialize_change_size(change)}
        for change in changes
    ]
