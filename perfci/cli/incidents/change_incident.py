"""``perfci incidents set``: change the state, assignee or details of incidents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from sqlalchemy.orm import Session

from perfci.cli.incidents.incident_listing import format_stored_list_entry
from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.options import EndOfDayParam, global_options, json_option
from perfci.cli.shared.store_and_machine_lock import local_user_audit_context, run_write_transaction
from perfci.model import IncidentState, PerfciError
from perfci.service.incidents.incident_update_rules import IncidentUpdate, parse_incident_update
from perfci.service.incidents.serialize_incidents import serialize_stored_incident
from perfci.service.incidents.triage import require_incident, update_incident, update_incidents
from perfci.store.incidents.incident_records import IncidentRecord
from perfci.store.projects import Project

OPTION_BY_FIELD = {
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
"""Each field of an update and the option that sets it."""

CLEARABLE_FIELDS = ("assignee", "issue_url", "culprit_sha", "fix_sha")
"""Fields that an empty option clears."""

UNTIL_FIELDS = {"accepted": "accepted_until", "snoozed": "snoozed_until"}
"""The field that ``--until`` sets, by state."""


@click.command("set")
@click.argument("numbers", metavar="NUMBER...", nargs=-1, required=True, type=click.IntRange(1))
@click.option("--state", type=click.Choice([state.value for state in IncidentState]))
@click.option("--reason", default="", help="why; required to accept")
@click.option("--until", type=EndOfDayParam(), help="end of an acceptance or snooze")
@click.option("--duplicate-of", type=click.IntRange(1), metavar="NUMBER", help="the incident it repeats")
@click.option("--assignee", help="assignee; '' for none")
@click.option("--due", type=EndOfDayParam(), help="due date")
@click.option("--issue", help="URL of the issue about it")
@click.option("--culprit", metavar="SHA", help="the commit that caused it")
@click.option("--fix", metavar="SHA", help="the commit that fixes it")
@click.option("--note", default="", help="a line for its history")
@click.option("--revision", type=click.IntRange(1), help="apply only if the incident still has this revision")
@json_option
@global_options
def set_incidents_command(
    numbers: tuple[int, ...], json_file: str | None, revision: int | None, **options: Any
) -> int:
    """Change the state, assignee or details of incidents; exit 1 if no incident was changed.

    --until and --reason alone change the end and the reason of an acceptance or snooze that is in force.
    """
    update = _build_update(options)
    if update == IncidentUpdate():
        raise PerfciError("Nothing to change: give for example --state investigating or --assignee ada.")
    if revision and len(numbers) > 1:
        raise PerfciError("--revision applies to a single incident.")

    def apply_update(tx: Session, project: Project) -> list[IncidentRecord]:
        context = local_user_audit_context()
        revisions = {number: require_incident(tx, project, number).revision for number in numbers}
        if len(numbers) == 1:
            seen = revision or revisions[numbers[0]]
            return [update_incident(tx, project, numbers[0], seen, update, context)]
        result = update_incidents(tx, project, revisions, update, context)
        for number, reason in sorted(result.refused.items()):
            click.echo(f"#{number}: {reason}", err=True)
        return [require_incident(tx, project, number) for number in result.changed]

    records = run_write_transaction(apply_update)
    if json_file:
        write_json(json_file, [serialize_stored_incident(record) for record in records])
    if json_file != "-" and records:
        click.echo("\n".join(line for record in records for line in format_stored_list_entry(record)))
    return 0 if records else 1


def _build_update(options: Mapping[str, Any]) -> IncidentUpdate:
    """The update that the options describe; ``--until`` sets the end that belongs to the state."""
    fields: dict[str, Any] = {}
    for name, option in OPTION_BY_FIELD.items():
        value = options[option]
        is_clearing = value == "" and name in CLEARABLE_FIELDS
        if value not in (None, "") or is_clearing:
            fields[name] = value
    if (until := options["until"]) is not None:
        if options["state"] not in UNTIL_FIELDS:
            raise PerfciError("--until goes with --state accepted or --state snoozed: say which.")
        fields[UNTIL_FIELDS[options["state"]]] = until
    return parse_incident_update(fields)
