"""``perfci alerts``: what the stored history asks a person, what explains the rest, and what to measure again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing

import click

from perfci.cli.incidents import triage
from perfci.cli.incidents.triage import stored_incident
from perfci.cli.shared.context import config_here, repository_here, store_to_read, write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.model import PerfciError
from perfci.policies import policy_of
from perfci.report.incidents import incident_text as words
from perfci.report.incidents.incident_serializers import incident_fields, situation_fields
from perfci.service.incidents.derive_incidents import Situation, situation
from perfci.service.incidents.serialize_incidents import listing_fields, whole_fields
from perfci.verdicts.incidents.page_budget import Told


@click.group("alerts")
@global_options
def command() -> None:
    """Show the incidents of a project: change points of all series, grouped by the commit that caused them."""


@command.command("list")
@json_option
@global_options
def list_command(json_file: str | None) -> None:
    """List every incident, what to measure again, and what crept since a release. Exit code 0 whatever is found."""
    if kept := triage.stored_list():
        if json_file:
            write_json(json_file, listing_fields(kept))
        if json_file != "-":
            click.echo("\n".join(triage.listed(kept)))
        return
    found = situation_here()
    if json_file:
        fields = situation_fields(
            found.project, found.told, found.retests, found.creeps, found.commits, found.pages_per_week
        )
        write_json(json_file, fields)
    if json_file != "-":
        click.echo("\n".join(listed(found)))


@command.command("show")
@click.argument("name", metavar="ID")
@json_option
@global_options
def show_command(name: str, json_file: str | None) -> None:
    """Show one incident with its members, suspects and history, by its number or the beginning of its id."""
    if kept := stored_incident(name):
        if json_file:
            write_json(json_file, whole_fields(*kept))
        if json_file != "-":
            click.echo("\n".join(triage.shown(kept[1])))
        return
    found = situation_here()
    told = chosen(found, name)
    if json_file:
        write_json(json_file, incident_fields(told, found.commits, found.pages_per_week))
    if json_file != "-":
        click.echo("\n".join(shown(told, found)))


for one in triage.COMMANDS:
    command.add_command(one)


def situation_here() -> Situation:
    config = config_here()
    with closing(store_to_read(config)) as store, store.read() as tx:
        return situation(tx, config.project, policy_of(config), config.settings.history, tags_here())


def tags_here() -> Mapping[str, Collection[str]] | None:
    """The tags of the repository this is; a release is often tagged after its commit was measured."""
    try:
        return repository_here().tags()
    except PerfciError:
        return None


def chosen(found: Situation, name: str) -> Told:
    fitting = [told for told in found.told if told.incident.id.startswith(name.lower())] if name else []
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(told.incident.id for told in found.told[:5]) or "none"
    what = f"{len(fitting)} incidents of {found.project} begin" if fitting else f"no incident of {found.project} begins"
    raise PerfciError(f"{what} with {name!r}; perfci alerts list shows them: {known}")


def listed(found: Situation) -> Iterator[str]:
    """Sentence first, then section by section; retests and creep with the commands that settle them."""
    yield f"{found.project}: {words.summary(found.told, len(found.retests), len(found.creeps))}"
    for title, mine in words.sections(found.told):
        yield from ("", title)
        for told in mine:
            yield from brief(told, found)
    if found.retests:
        yield from ("", "To measure again")
        for retest in found.retests:
            yield from (f"  {words.retest_sentence(retest)}", f"    {words.retest_command(retest)}")
    if found.creeps:
        yield from ("", "Creeping since a release")
        for creep in found.creeps:
            yield from (f"  {words.creep_sentence(creep)}", f"    {words.creep_command(creep)}")


def brief(told: Told, found: Situation) -> Iterator[str]:
    incident = told.incident
    yield f"  {words.GLYPHS[incident.kind]} {incident.id}  {words.headline(incident, found.commits)}"
    explained = words.explanation(incident, found.commits)
    yield f"    {words.largest(incident)}. {explained}".rstrip()
    yield f"    {words.standing(told, found.pages_per_week)}"
    yield from (f"    {command}" for command in [words.measure_command(incident)] if command)


def shown(told: Told, found: Situation) -> Iterator[str]:
    incident = told.incident
    yield f"{words.GLYPHS[incident.kind]} {words.headline(incident, found.commits)}"
    yield from filter(None, [words.explanation(incident, found.commits)])
    yield f"{incident.id}, {words.standing(told, found.pages_per_week)}"
    yield from ("", "What moved, largest first")
    yield from (f"  {words.member(change)}" for change in incident.members)
    if incident.suspects:
        yield from ("", "Suspects, likeliest first")
        yield from (f"  {line}" for line in words.suspect_lines(incident))
    if settle := words.measure_command(incident):
        yield from ("", "What would settle it", f"  {settle}")
