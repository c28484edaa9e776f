"""``perfci alerts set, undo, merge, split, nudge, health, ledger``: what people do with incidents, how well it goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime, time
from typing import Any

import click
from sqlalchemy.orm import Session

from perfci.cli.incidents import destination, mute, schedule
from perfci.cli.shared.context import current_config, open_store_to_read, write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.cli.shared.project_transaction import local_audit_context, read_from_project, write_to_project
from perfci.model import ChangePoint, IncidentKind, IncidentState, PerfciError
from perfci.report.incidents import activity_log, notification_text
from perfci.report.incidents import incident_text as words
from perfci.report.number_format import format_count, format_duration, format_percent
from perfci.service.incidents import merge_and_split, move_boundary, undo_change
from perfci.service.incidents.alert_quality import AlertQuality, compute_alert_quality
from perfci.service.incidents.change_request import parse_incident_update
from perfci.service.incidents.serialize_incidents import (
    IncidentDetail,
    IncidentOverview,
    load_incident_detail,
    load_incident_overview,
    serialize_incident,
)
from perfci.service.incidents.state_changes import IncidentUpdate
from perfci.service.incidents.triage import require_incident, update_incident, update_incidents
from perfci.store import projects
from perfci.store.incidents import incident_store
from perfci.store.incidents.impact import list_impacts
from perfci.store.incidents.records import DATA_KIND, IncidentRecord
from perfci.store.projects import Project

MISSING_DATA_GLYPH = "?"
MAX_LISTED = 100


class DayParam(click.ParamType[datetime]):
    """A day, which ends at its midnight in UTC."""

    name = "DAY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            return datetime.combine(datetime.fromisoformat(value).date(), time(23, 59, 59), UTC)
        except ValueError:
            self.fail(f"{value!r} is no day; expected for example 2026-05-04", param, ctx)


@click.command("set")
@click.argument("numbers", metavar="NUMBER...", nargs=-1, required=True, type=click.IntRange(1))
@click.option("--state", type=click.Choice([state.value for state in IncidentState]))
@click.option("--reason", default="", help="why; needed to accept")
@click.option("--until", type=DayParam(), help="until when it is accepted or snoozed")
@click.option("--duplicate-of", type=click.IntRange(1), metavar="NUMBER", help="the incident it repeats")
@click.option("--assignee", help="who takes care of it; '' for nobody")
@click.option("--due", type=DayParam(), help="by when")
@click.option("--issue", help="the address of the issue about it")
@click.option("--culprit", metavar="SHA", help="the commit that did it")
@click.option("--fix", metavar="SHA", help="the commit that repairs it")
@click.option("--note", default="", help="a line for its history")
@click.option("--revision", type=click.IntRange(1), help="change it only if it is still as you saw it")
@json_option
@global_options
def set_command(numbers: tuple[int, ...], json_file: str | None, revision: int | None, **options: Any) -> int:
    """Change the state of incidents, who cares for them, or what is known of them; exit 1 where none took it.

    What is accepted or snoozed already gets another end with --until, and another reason with --reason.
    """
    wanted = _build_change(options)
    if wanted == IncidentUpdate():
        raise PerfciError(
            "Nothing is to be changed: name for example --state investigating or --assignee ada."
        )
    if revision and len(numbers) > 1:
        raise PerfciError("--revision is of one incident: change the others by themselves.")

    def job(tx: Session, project: Project) -> list[IncidentRecord]:
        if len(numbers) == 1:
            known = require_incident(tx, project, numbers[0])
            return [
                update_incident(
                    tx, project, numbers[0], revision or known.revision, wanted, local_audit_context()
                )
            ]
        seen = {number: require_incident(tx, project, number).revision for number in numbers}
        found = update_incidents(tx, project, seen, wanted, local_audit_context())
        for number, why in sorted(found.refused.items()):
            click.echo(f"#{number}: {why}", err=True)
        return [require_incident(tx, project, number) for number in found.changed]

    changed = write_to_project(job)
    if json_file:
        write_json(json_file, [serialize_incident(one) for one in changed])
    if json_file != "-" and changed:
        click.echo("\n".join(line for one in changed for line in format_stored_summary(one)))
    return 0 if changed else 1


@click.command("undo")
@click.argument("number", type=click.IntRange(1))
@click.option(
    "--revision", type=click.IntRange(1), help="take it back only if the incident is still as you saw it"
)
@global_options
def undo_command(number: int, revision: int | None) -> None:
    """Take back the last change of an incident's state."""

    def job(tx: Session, project: Project) -> IncidentRecord:
        return undo_change.undo_last_change(
            tx,
            project,
            number,
            revision or require_incident(tx, project, number).revision,
            local_audit_context(),
        )

    click.echo("\n".join(format_stored_summary(write_to_project(job))))


@click.command("merge")
@click.argument("number", type=click.IntRange(1))
@click.argument("others", nargs=-1, required=True, type=click.IntRange(1))
@global_options
def merge_command(number: int, others: tuple[int, ...]) -> None:
    """Take the series of other incidents into the first one; those become its duplicates."""

    def job(tx: Session, project: Project) -> IncidentRecord:
        seen = {other: require_incident(tx, project, other).revision for other in others}
        return merge_and_split.merge_incidents(
            tx, project, number, require_incident(tx, project, number).revision, seen, local_audit_context()
        )

    click.echo("\n".join(format_stored_summary(write_to_project(job))))


@click.command("split")
@click.argument("number", type=click.IntRange(1))
@click.option("--bench", required=True, metavar="TEXT", help="series with this in their name go")
@global_options
def split_command(number: int, bench: str) -> None:
    """Give some series of an incident a number of their own."""

    def job(tx: Session, project: Project) -> tuple[IncidentRecord, ...]:
        found = load_incident_detail(tx, project, number)
        chosen = {member.series_id for member, series in found.members if bench in series.label}
        return merge_and_split.split_members(
            tx, project, number, found.record.revision, chosen, local_audit_context()
        )

    click.echo("\n".join(line for one in write_to_project(job) for line in format_stored_summary(one)))


@click.command("nudge", context_settings={"ignore_unknown_options": True})
@click.argument("number", type=click.IntRange(1))
@click.argument("by", type=int, metavar="COMMITS")
@global_options
def nudge_command(number: int, by: int) -> None:
    """Move the edge of an incident so many commits, and test at once what its series say: perfci alerts nudge 12 -1."""

    def job(tx: Session, project: Project) -> move_boundary.BoundaryMoveOutcome:
        record = require_incident(tx, project, number)
        good, bad = move_boundary.shift_range(tx, project, record, by)
        return move_boundary.move_boundary(
            tx, project, number, record.revision, good, bad, local_audit_context()
        )

    found = write_to_project(job)
    click.echo("\n".join(format_stored_summary(found.record)))
    for one in found.tests:
        said = "fits worse" if one.is_worse else "fits"
        click.echo(f"    {one.label}: {said}, {one.new.sigmas:.1f} sigmas there, {one.old.sigmas:.1f} before")


@click.command("health")
@json_option
@global_options
def health_command(json_file: str | None) -> None:
    """How well the alarms serve: false ones, time until somebody looks, noisy benchmarks."""
    found = read_from_project(lambda tx, project: compute_alert_quality(tx, project, datetime.now(UTC)))
    if json_file:
        write_json(json_file, asdict(found) | {"false_rate": found.false_rate})
    if json_file != "-":
        click.echo("\n".join(health_lines(found)))


@click.command("ledger")
@click.option("--commit", metavar="SHA", help="only what this commit did; the sha or its beginning")
@click.option("--moved", type=click.Choice(["worse", "better"]), help="only what got worse, or better")
@click.option(
    "--limit", type=click.IntRange(1), default=MAX_LISTED, show_default=True, help="lines, the last first"
)
@json_option
@global_options
def ledger_command(commit: str | None, moved: str | None, limit: int, json_file: str | None) -> None:
    """Which commit moved which series by how much, also where a later gain hides it."""
    worse = moved == "worse" if moved else None
    lines, more = read_from_project(
        lambda tx, project: list_impacts(tx, project.id, commit=commit, worse=worse, limit=limit)
    )
    if json_file:
        write_json(json_file, [{**asdict(one), "series": one.series.label} for one in lines])
    if json_file != "-":
        for one in lines:
            said = words.member_sentence(
                ChangePoint(one.series, one.commit, "", one.relative_change, one.before, one.after)
            )
            number = f"  #{one.incident}" if one.incident else ""
            click.echo(f"{one.commit[:10]}  {said}{number}{'  accepted' if one.accepted else ''}")
    if more is not None:
        click.echo(f"there is more: --limit {2 * limit} shows twice as much", err=True)


def format_stored_summary(record: IncidentRecord) -> Iterator[str]:
    """One incident in a list."""
    glyph = MISSING_DATA_GLYPH if record.kind == DATA_KIND else words.GLYPHS[IncidentKind(record.kind)]
    yield f"  {glyph} #{record.number}  {notification_text.STATE_LABELS[record.state]}  {record.headline}"
    cares = f"for {record.assignee}" if record.assignee else ""
    largest, explained = (record.detail.get(name) or "" for name in ("largest", "explanation"))
    about = [f"{largest}. {explained}".strip() if largest else explained, record.reason, cares]
    yield from (f"    {line}" for line in about if line)


def format_stored_incident(incident: IncidentDetail) -> Iterator[str]:
    """One incident with its series, suspects and history."""
    record = incident.record
    yield from format_stored_summary(record)
    about = (record.derived_id, f"revision {record.revision}", record.detail.get("disposition_text"))
    yield f"    {', '.join(filter(None, about))}"
    if incident.members:
        yield from ("", "What moved, largest first")
        yield from (
            f"  {words.member_sentence(member.to_change_point(series))}"
            for member, series in incident.members
        )
    if commits := record.detail.get("candidate_commits"):
        yield from ("", "Candidate commits, most likely first")
        yield from (f"  {one['commit'][:10]} {one.get('subject') or ''}".rstrip() for one in commits)
    yield from ("", "History")
    for event in incident.events:
        said = activity_log.activity_text(event.action, event.before, event.after, event.text)
        yield f"  {event.at:%Y-%m-%d %H:%M}  {event.actor}  {activity_log.activity_heading(event.action, event.text)}: {said}"
    if command := record.detail.get("next_measurement"):
        yield from ("", "Next measurement", f"  {command}")


def health_lines(found: AlertQuality) -> Iterator[str]:
    alerts = format_count(found.paged, "alert")
    yield f"{format_count(found.open, 'open incident')}, {found.overdue} overdue, {alerts} in half a year"
    if found.false_rate is not None:
        yield f"{format_percent(found.false_rate)} of {found.judged} decided were nothing"
    if found.hours_to_triage is not None:
        yield f"half were taken up within {format_duration(found.hours_to_triage * 3600)}"
    for one in found.noisy:
        yield f"  {one.benchmark}: {one.invalid} of {one.judged} were nothing"


SECTION_TITLES = {
    "open": "Open",
    "held": "Held back",
    "waiting": "Waiting",
    "snoozed": "Snoozed",
    "rest": "Settled or noted",
}


def load_listing() -> IncidentOverview | None:
    """The incidents as people know them; nothing where no look was ever kept."""
    config = current_config()
    with closing(open_store_to_read(config)) as store, store.read() as tx:
        project = projects.find_project(tx, config.project)
        return load_incident_overview(tx, project) if project else None


def format_listing(incident_list: IncidentOverview) -> Iterator[str]:
    """Sentence first, then section by section; retests and creep with the commands that settle them."""
    yield f"{incident_list.project}: {incident_list.sentence}"
    for name, records in incident_list.sections.items():
        if records:
            yield from ("", SECTION_TITLES[name])
            for record in records[:MAX_LISTED]:
                yield from format_stored_summary(record)
                yield from (
                    f"    {line}"
                    for line in (record.detail.get("disposition_text"), record.detail.get("next_measurement"))
                    if line
                )
            if len(records) > MAX_LISTED:
                yield f"  and {len(records) - MAX_LISTED:,} more"
    for title, entries in (
        ("To measure again", incident_list.evaluation.retests),
        ("Creeping since a release", incident_list.evaluation.creeps),
    ):
        if entries:
            yield from ("", title)
            for one in entries:
                yield from (f"  {one['sentence']}", f"    {one['command']}")


def load_incident(name: str) -> tuple[Project, IncidentDetail] | None:
    """The stored incident of a number, or of the beginning of an id that was sent before it had one."""

    def find(tx: Session, project: Project) -> tuple[Project, IncidentDetail] | None:
        if name.lstrip("#").isdecimal() and len(name) < 8:
            number = int(name.lstrip("#"))
            return (
                (project, load_incident_detail(tx, project, number))
                if incident_store.find_incident(tx, project.id, number)
                else None
            )
        fitting = incident_store.find_by_derived_id(tx, project.id, name.lower()) if name else []
        return (project, load_incident_detail(tx, project, fitting[0].number)) if len(fitting) == 1 else None

    config = current_config()
    with closing(open_store_to_read(config)) as store, store.read() as tx:
        project = projects.find_project(tx, config.project)
        return find(tx, project) if project else None


def _build_change(options: Mapping[str, Any]) -> IncidentUpdate:
    """What the options ask; the end that --until gives belongs to the state."""
    given = {
        name: options[option] for name, option in OPTION_OF_FIELD.items() if options[option] not in (None, "")
    }
    given |= {
        name: options[OPTION_OF_FIELD[name]]
        for name in CLEARABLE_FIELDS
        if options[OPTION_OF_FIELD[name]] is not None
    }
    if (until := options["until"]) is not None:
        if options["state"] not in UNTIL_FIELDS:
            raise PerfciError("--until goes with --state accepted or --state snoozed: say which.")
        given[UNTIL_FIELDS[options["state"]]] = until
    return parse_incident_update(given)


OPTION_OF_FIELD = {
    "state": "state",
    "assignee": "assignee",
    "due_at": "due",
    "reason": "reason",
    "duplicate_of": "duplicate_of",
    "note": "note",
    "issue_url": "issue",
    "culprit_sha": "culprit",
    "fix_sha": "fix",
}
"""Each field of a change and the option that gives it."""

CLEARABLE_FIELDS = ("assignee", "issue_url", "culprit_sha", "fix_sha")
"""Fields that an empty option empties."""

UNTIL_FIELDS = {"accepted": "accepted_until", "snoozed": "snoozed_until"}


SUBCOMMANDS = (
    set_command,
    undo_command,
    merge_command,
    split_command,
    nudge_command,
    health_command,
    ledger_command,
    mute.command,
    schedule.command,
    destination.command,
)
