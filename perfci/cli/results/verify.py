"""``perfci verify``: compute an evidence bundle again, without the store it came from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.formats.evidence.evidence_bundle import EvidenceBundle, read_bundle
from perfci.history.decision_records import SOFTWARE_VERSIONS
from perfci.model import Series, Verdict
from perfci.number_format import format_count, format_signed_percent
from perfci.report.escaping import make_printable
from perfci.report.serializers import serialize_change_size
from perfci.report.series_places import SeriesPlaces
from perfci.service.evidence.verify_evidence import EvidenceVerification, MemberCheck, verify_evidence

MAX_TEXT_LENGTH = 600
"""Characters of one difference; a reason is part of it twice."""


@click.command("verify")
@click.argument("bundle_file", metavar="BUNDLE", type=click.Path(path_type=Path, dir_okay=False))
@json_option
@global_options
def verify_command(bundle_file: Path, json_file: str | None) -> int:
    """Compute the levels, change points and verdicts of an evidence bundle again, bit for bit.

    BUNDLE is a file of perfci export --format evidence. Needs no store and no network. Exit code 1 if
    anything differs from what the bundle states, 2 if the bundle cannot be read or was changed.
    """
    bundle = read_bundle(bundle_file)
    verification = verify_evidence(bundle)
    if json_file:
        write_json(json_file, serialize_verification(bundle, verification))
    if json_file != "-":
        click.echo("\n".join(format_verification(bundle, verification)))
    return 0 if verification.stands else 1


def format_verification(bundle: EvidenceBundle, verification: EvidenceVerification) -> Iterator[str]:
    """The lines of a verification: what stands, what differs and in what, and by which versions."""
    incident = bundle.incident
    yield (
        f"Incident {incident.number} of {make_printable(bundle.project)}: "
        f"{make_printable(incident.headline, MAX_TEXT_LENGTH)}"
    )
    name = name_apart(
        [
            *(member.series for member in verification.members),
            *(record.verdict.series for record in verification.verdicts),
        ]
    )
    for member in verification.members:
        yield f"  {_format_member(member, name(member.series))}"
    differences = _differences_by_verdict(verification)
    for record in verification.verdicts:
        texts = "; ".join(differences.get(record.id, ["identical"]))
        verdict = _format_verdict(record.verdict, name(record.verdict.series))
        yield f"  verdict {record.id}: {verdict}: {make_printable(texts, MAX_TEXT_LENGTH)}"
    for difference in (*verification.level_differences, *verification.history_differences):
        yield f"  {name(difference.series)}: {difference.description}"
    yield _count_computed(verification)
    if bundle.profiles or bundle.explanations:
        yield (
            f"Carried, not computed: {format_count(len(bundle.profiles), 'profile')}, "
            f"{format_count(len(bundle.traces), 'trace')}, "
            f"{format_count(len(bundle.explanations), 'explanation')}."
        )
    if verification.other_versions:
        yield (
            f"Computed here by {SOFTWARE_VERSIONS}; the evidence is by "
            f"{make_printable('; '.join(verification.other_versions), MAX_TEXT_LENGTH)}."
        )
    yield _conclude(verification)


def name_apart(listed: Iterable[Series]) -> Callable[[Series], str]:
    """Name series so that no two of a list read alike: what tells them apart stands behind the name."""
    places = SeriesPlaces(listed)

    def name(series: Series) -> str:
        place = places.label(series)
        return f"{series.label} ({make_printable(place)})" if place else series.label

    return name


def _format_member(member: MemberCheck, name: str) -> str:
    change = member.change
    size = format_signed_percent(change.relative_change)
    place = f"{name}  {size}  {change.last_good[:10]}..{change.commit[:10]}"
    if member.stands:
        return f"{place}: stands, {member.basis}"
    return f"{place}: differs, nothing in the bundle gives {change.before!r} to {change.after!r}"


def _format_verdict(verdict: Verdict, name: str) -> str:
    return f"{name}  {verdict.base[:10]}..{verdict.head[:10]}  {verdict.kind} ({verdict.stage})"


def _differences_by_verdict(verification: EvidenceVerification) -> dict[int, list[str]]:
    differences: dict[int, list[str]] = defaultdict(list)
    for difference in verification.verdict_differences:
        text = difference.description
        if difference.is_by_other_version:
            text += f" (decided by {difference.made_by})"
        differences[difference.record.id].append(text)
    return differences


def _count_computed(verification: EvidenceVerification) -> str:
    computed = [
        f"{format_count(verification.sampled_levels, 'level')} from samples",
        f"{format_count(verification.change_points, 'change point')} of "
        f"{format_count(verification.histories, 'history', 'histories')}",
        format_count(len(verification.verdicts), "verdict"),
    ]
    text = f"Computed again: {', '.join(computed)}."
    if verification.other_levels:
        text += f" Taken as stored: {format_count(verification.other_levels, 'level')} without samples here."
    if verification.unverifiable_verdicts:
        older = format_count(verification.unverifiable_verdicts, "verdict")
        text += f" Not computed: {older} from before interim analyses were stored."
    return text


def _conclude(verification: EvidenceVerification) -> str:
    if verification.stands:
        return "The evidence stands: everything came out as it was stored, bit for bit."
    differing = (
        sum(not member.stands for member in verification.members)
        + len(_differences_by_verdict(verification))
        + len(verification.level_differences)
        + len(verification.history_differences)
    )
    return f"The evidence does not stand: {format_count(differing, 'stored value')} came out otherwise."


def serialize_verification(bundle: EvidenceBundle, verification: EvidenceVerification) -> dict[str, Any]:
    """A verification as plain JSON values."""
    differences = _differences_by_verdict(verification)
    return {
        "project": bundle.project,
        "incident": bundle.incident.number,
        "stands": verification.stands,
        "computed_by": SOFTWARE_VERSIONS,
        "other_versions": list(verification.other_versions),
        "members": [
            {
                "series": member.series.label,
                "last_good": member.change.last_good,
                "commit": member.change.commit,
                **serialize_change_size(member.change),
                "stands": member.stands,
                "basis": member.basis,
            }
            for member in verification.members
        ],
        "verdicts": [
            {
                "verdict": record.id,
                "series": record.verdict.series.label,
                "base": record.verdict.base,
                "head": record.verdict.head,
                "kind": record.verdict.kind.value,
                "stage": record.verdict.stage.value,
                "differences": differences.get(record.id, []),
            }
            for record in verification.verdicts
        ],
        "verdicts_without_looks": verification.unverifiable_verdicts,
        "levels_from_samples": verification.sampled_levels,
        "levels_as_stored": verification.other_levels,
        "change_points": verification.change_points,
        "differences": [
            {"series": difference.series.label, "difference": difference.description}
            for difference in (*verification.level_differences, *verification.history_differences)
        ],
    }
