"""``perfci incidents``: list and show incidents; its other verbs have a module each."""

from __future__ import annotations

from contextlib import closing

import click

from perfci.cli.incidents import change_incident, expected_run_interval, mute, notification_destination
from perfci.cli.incidents.incident_listing import (
    find_stored_incident,
    format_derived_incident,
    format_derived_incident_list,
    format_stored_incident,
    format_stored_incident_list,
    load_stored_incident_list,
)
from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.cli.shared.repository_and_config import current_config, current_repository
from perfci.cli.shared.store_and_machine_lock import open_store_to_read
from perfci.model import PerfciError
from perfci.project_policies import build_policy
from perfci.report.serializers import serialize_derived_incident, serialize_derived_incident_overview
from perfci.service.incidents.evaluate_project import ProjectEvaluation, evaluate_project
from perfci.service.incidents.serialize_incidents import (
    serialize_incident_detail,
    serialize_stored_incident_overview,
)
from perfci.verdicts.incidents.paging_budget import BudgetedIncident


@click.group("incidents")
@global_options
def incidents_group() -> None:
    """List and triage incidents: change points of all series, grouped by the commit that caused them."""


@incidents_group.command("list")
@json_option
@global_options
def list_command(json_file: str | None) -> None:
    """List all incidents, suggested re-measurements and slow drift since a release. Always exits 0."""
    if stored := load_stored_incident_list():
        if json_file:
            write_json(json_file, serialize_stored_incident_overview(stored))
        if json_file != "-":
            click.echo("\n".join(format_stored_incident_list(stored)))
        return
    evaluation = derive_incidents()
    if json_file:
        fields = serialize_derived_incident_overview(
            evaluation.project,
            evaluation.incidents,
            evaluation.retests,
            evaluation.creeps,
            evaluation.commits,
            evaluation.pages_per_week,
        )
        write_json(json_file, fields)
    if json_file != "-":
        click.echo("\n".join(format_derived_incident_list(evaluation)))


@incidents_group.command("show")
@click.argument("name", metavar="ID")
@json_option
@global_options
def show_command(name: str, json_file: str | None) -> None:
    """Show one incident with its series, candidate commits and history, by number or beginning of its id."""
    if stored := find_stored_incident(name):
        project, detail = stored
        if json_file:
            write_json(json_file, serialize_incident_detail(project, detail))
        if json_file != "-":
            click.echo("\n".join(format_stored_incident(project.slug, detail)))
        return
    evaluation = derive_incidents()
    incident = find_derived_incident(evaluation, name)
    if json_file:
        write_json(
            json_file, serialize_derived_incident(incident, evaluation.commits, evaluation.pages_per_week)
        )
    if json_file != "-":
        click.echo("\n".join(format_derived_incident(incident, evaluation)))


for subcommand in (
    change_incident.set_incidents_command,
    mute.mute_group,
    expected_run_interval.run_interval_group,
    notification_destination.destination_group,
):
    incidents_group.add_command(subcommand)


def derive_incidents() -> ProjectEvaluation:
    """Derive the incidents of this project from its stored history; nothing is written."""
    config = current_config()
    # A release is often tagged after its commit was measured, so that the stored tags are older.
    try:
        tags = current_repository().list_tags_by_commit()
    except PerfciError:
        tags = None
    with closing(open_store_to_read(config)) as store, store.read() as tx:
        return evaluate_project(
            tx, config.project, build_policy(config.settings), config.settings.history, tags
        )


def find_derived_incident(evaluation: ProjectEvaluation, name: str) -> BudgetedIncident:
    """The one incident whose id begins with ``name``; an error if none or several do."""
    prefix = name.lower()
    matches = [entry for entry in evaluation.incidents if name and entry.incident.id.startswith(prefix)]
    if len(matches) == 1:
        return matches[0]
    first_ids = ", ".join(entry.incident.id for entry in evaluation.incidents[:5]) or "none"
    problem = f"no incident of {evaluation.project} begins"
    if matches:
        problem = f"{len(matches)} incidents of {evaluation.project} begin"
    raise PerfciError(f"{problem} with {name!r}; perfci incidents list shows them: {first_ids}")
