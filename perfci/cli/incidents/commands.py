"""``perfci alerts``: what the stored history asks a person, what explains the rest, and what to measure again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing

import click

from perfci.cli.incidents import triage
from perfci.cli.incidents.triage import load_incident
from perfci.cli.shared.context import current_config, current_repository, open_store_to_read, write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.model import PerfciError
from perfci.policies import build_policy
from perfci.report.incidents import incident_text as words
from perfci.report.incidents.incident_serializers import serialize_incident, serialize_incident_overview
from perfci.service.incidents.derive_incidents import ProjectEvaluation, evaluate_project
from perfci.service.incidents.serialize_incidents import serialize_incident_detail, serialize_stored_overview
from perfci.verdicts.incidents.page_budget import BudgetedIncident


@click.group("alerts")
@global_options
def command() -> None:
    """Show the incidents of a project: change points of all series, grouped by the commit that caused them."""


@command.command("list")
@json_option
@global_options
def list_command(json_file: str | None) -> None:
    """List every incident, what to measure again, and what crept since a release. Exit code 0 whatever is found."""
    if kept := triage.load_listing():
        if json_file:
            write_json(json_file, serialize_stored_overview(kept))
        if json_file != "-":
            click.echo("\n".join(triage.format_listing(kept)))
        return
    found = derive_situation()
    if json_file:
        fields = serialize_incident_overview(
            found.project, found.incidents, found.retests, found.creeps, found.commits, found.pages_per_week
        )
        write_json(json_file, fields)
    if json_file != "-":
        click.echo("\n".join(format_situation(found)))


@command.command("show")
@click.argument("name", metavar="ID")
@json_option
@global_options
def show_command(name: str, json_file: str | None) -> None:
    """Show one incident with its members, suspects and history, by its number or the beginning of its id."""
    if kept := load_incident(name):
        if json_file:
            write_json(json_file, serialize_incident_detail(*kept))
        if json_file != "-":
            click.echo("\n".join(triage.format_stored_incident(kept[1])))
        return
    found = derive_situation()
    told = find_incident(found, name)
    if json_file:
        write_json(json_file, serialize_incident(told, found.commits, found.pages_per_week))
    if json_file != "-":
        click.echo("\n".join(format_derived_incident(told, found)))


for one in triage.SUBCOMMANDS:
    command.add_command(one)


def derive_situation() -> ProjectEvaluation:
    config = current_config()
    with closing(open_store_to_read(config)) as store, store.read() as tx:
        return evaluate_project(
            tx, config.project, build_policy(config), config.settings.history, current_tags()
        )


def current_tags() -> Mapping[str, Collection[str]] | None:
    """The tags of the repository this is; a release is often tagged after its commit was measured."""
    try:
        return current_repository().tags()
    except PerfciError:
        return None


def find_incident(situation: ProjectEvaluation, name: str) -> BudgetedIncident:
    fitting = (
        [told for told in situation.incidents if told.incident.id.startswith(name.lower())] if name else []
    )
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(told.incident.id for told in situation.incidents[:5]) or "none"
    what = (
        f"{len(fitting)} incidents of {situation.project} begin"
        if fitting
        else f"no incident of {situation.project} begins"
    )
    raise PerfciError(f"{what} with {name!r}; perfci alerts list shows them: {known}")


def format_situation(situation: ProjectEvaluation) -> Iterator[str]:
    """Sentence first, then section by section; retests and creep with the commands that settle them."""
    yield f"{situation.project}: {words.incidents_summary(situation.incidents, len(situation.retests), len(situation.creeps))}"
    for title, mine in words.group_by_section(situation.incidents):
        yield from ("", title)
        for told in mine:
            yield from format_derived_summary(told, situation)
    if situation.retests:
        yield from ("", "To measure again")
        for retest in situation.retests:
            yield from (f"  {words.retest_sentence(retest)}", f"    {words.retest_command(retest)}")
    if situation.creeps:
        yield from ("", "Creeping since a release")
        for creep in situation.creeps:
            yield from (f"  {words.creep_sentence(creep)}", f"    {words.creep_command(creep)}")


def format_derived_summary(planned: BudgetedIncident, situation: ProjectEvaluation) -> Iterator[str]:
    incident = planned.incident
    yield f"  {words.GLYPHS[incident.kind]} {incident.id}  {words.incident_headline(incident, situation.commits)}"
    explained = words.incident_explanation(incident, situation.commits)
    yield f"    {words.largest_change_sentence(incident)}. {explained}".rstrip()
    yield f"    {words.disposition_sentence(planned, situation.pages_per_week)}"
    yield from (f"    {command}" for command in [words.measure_command(incident)] if command)


def format_derived_incident(planned: BudgetedIncident, situation: ProjectEvaluation) -> Iterator[str]:
    incident = planned.incident
    yield f"{words.GLYPHS[incident.kind]} {words.incident_headline(incident, situation.commits)}"
    yield from filter(None, [words.incident_explanation(incident, situation.commits)])
    yield f"{incident.id}, {words.disposition_sentence(planned, situation.pages_per_week)}"
    yield from ("", "What moved, largest first")
    yield from (f"  {words.member_sentence(change)}" for change in incident.members)
    if incident.candidates:
        yield from ("", "Suspects, likeliest first")
        yield from (f"  {line}" for line in words.candidate_commit_lines(incident))
    if settle := words.measure_command(incident):
        yield from ("", "What would settle it", f"  {settle}")
