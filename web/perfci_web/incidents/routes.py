"""Addresses of incidents: the list, one of them, and the forms that change them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from flask import Flask, Response, jsonify, redirect, render_template, request
from sqlalchemy.orm import Session

from perfci.auth.permissions import Need, decide
from perfci.model import PerfciError, Series
from perfci.policies import StandardsOf
from perfci.report.incidents.incident_serializers import situation_fields
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.alert_quality import health
from perfci.service.incidents.derive_incidents import Situation, situation
from perfci.service.incidents.merge_and_split import merge, split
from perfci.service.incidents.move_boundary import nudge, shifted
from perfci.service.incidents.serialize_incidents import listing, listing_fields, whole, whole_fields
from perfci.service.incidents.triage import Bulk, Stale, change, change_many, incident_of
from perfci.service.incidents.undo_change import undo
from perfci.store import Store, projects
from perfci.store.conversions import series_identity
from perfci.store.incidents import incident_store
from perfci.store.incidents.incident_members import namesakes
from perfci.store.projects import Project
from perfci.store.writes.row_ids import stored_series
from perfci_web.incidents import incident_view
from perfci_web.incidents import list_view as pages
from perfci_web.incidents.list_view import Entry
from perfci_web.not_found import Missing, Offer
from perfci_web.page_access import caller
from perfci_web.page_urls import Links
from perfci_web.request_id import request_id

LIST = "/<project:project>/incidents"
ONE = f"{LIST}/<int(max=2147483647):number>"
MOST_AT_ONCE = 500


def install(app: Flask, store: Store, clock: Callable[[], datetime], standards_of: StandardsOf) -> None:
    """Bind the pages of incidents to the store; what they change goes through the writer that the API uses too."""
    desk = Desk(app, store, clock, standards_of)

    def page(rule: str, name: str, view: Callable[..., Any], method: str = "GET") -> None:
        app.add_url_rule(rule, name, partial(view, desk), methods=[method])

    page(LIST, "incidents", incidents_page)
    page(f"{LIST}.json", "incidents.json", incidents_json)
    page(LIST, "incidents.change", change_chosen, "POST")
    page(ONE, "incident", incident_page)
    page(f"{ONE}.json", "incident.json", incident_json)
    page(ONE, "incident.change", change_one, "POST")
    page(f"{ONE}/merge", "incident.merge", merge_others, "POST")
    page(f"{ONE}/split", "incident.split", split_off, "POST")
    page(f"{ONE}/nudge", "incident.nudge", nudge_edge, "POST")
    page(f"{ONE}/undo", "incident.undo", undo_last, "POST")


class Desk:
    """What every page of incidents needs."""

    def __init__(self, app: Flask, store: Store, clock: Callable[[], datetime], standards_of: StandardsOf) -> None:
        self.store, self.clock = store, clock
        self._standards_of = standards_of
        self._app = app

    def write(self, job: Callable[[Session], Any]) -> Any:
        return self._app.extensions["perfci_api"].group().submit(job)

    def by(self) -> AuditContext:
        return AuditContext(caller(), self.clock(), request_id())

    def project(self, tx: Session, slug: str) -> Project:
        found = projects.project(tx, slug)
        assert found is not None  # no page of another one is reached
        return found

    def situation(self, tx: Session, known: Project) -> Situation:
        standards = self._standards_of(known)
        return situation(tx, known.slug, standards.policy, standards.history)


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a form was not taken, and what was typed and ticked in it: nobody loses that."""

    told: str
    typed: Mapping[str, str] = field(default_factory=dict)
    ticked: frozenset[int] = frozenset()


NOTHING = Refused("")


def incidents_page(desk: Desk, project: str, refused: Refused = NOTHING) -> str | tuple[str, int]:
    with desk.store.read() as tx:
        known = desk.project(tx, project)
        page = _list(desk, tx, known)
        changed = _changed_one(tx, known)
        shown = {change.series for section in page.sections for one in section.entries for change in one.members}
        links = _links(project, namesakes(tx, project, shown))
        figures = health(tx, known, desk.clock())
    text = render_template(
        "incidents/incidents.html",
        page=page,
        health=figures,
        links=links,
        may_change=_may_change(known),
        changed=changed,
        refused=refused,
    )
    return (text, 409) if refused.told else text


def incidents_json(desk: Desk, project: str) -> Response:
    with desk.store.read() as tx:
        known = desk.project(tx, project)
        kept = listing(tx, known)
        if kept is not None:
            return jsonify(listing_fields(kept))
        found = desk.situation(tx, known)
    fields = situation_fields(project, found.told, found.retests, found.creeps, found.commits, found.pages_per_week)
    return jsonify(fields)


def incident_page(desk: Desk, project: str, number: int, refused: Refused = NOTHING) -> str | tuple[str, int]:
    with desk.store.read() as tx:
        known = desk.project(tx, project)
        _there(tx, known, number)
        found = whole(tx, known, number)
        identities = {member.series_id: series_identity(project, series) for member, series in found.members}
        page = incident_view.incident_page(project, found, identities)
        links = _links(project, namesakes(tx, project, page.series))
    text = render_template(
        "incidents/incident.html",
        page=page,
        suspects=incident_view.suspects_of(page),
        is_data=incident_view.is_data(page),
        links=links,
        may_change=_may_change(known),
        refused=refused,
        typed=refused.typed or {"state": request.args.get("state", "")},
    )
    return (text, 409) if refused.told else text


def incident_json(desk: Desk, project: str, number: int) -> Response:
    with desk.store.read() as tx:
        known = desk.project(tx, project)
        _there(tx, known, number)
        return jsonify(whole_fields(known, whole(tx, known, number)))


def change_one(desk: Desk, project: str, number: int) -> Any:
    form, by = request.form.to_dict(), desk.by()  # the writer works in a thread that knows no request

    def job(tx: Session, known: Project) -> None:
        change(tx, known, number, _revision(form), incident_view.change_of(form), by)

    return _changed(desk, project, number, job)


def merge_others(desk: Desk, project: str, number: int) -> Any:
    form, by = request.form.to_dict(), desk.by()

    def job(tx: Session, known: Project) -> None:
        asked = form.get("others", "").replace("#", " ").replace(",", " ").split()
        if not asked or not all(one.isdecimal() and len(one) < 10 for one in asked):
            raise PerfciError("Name the other incidents by their numbers, for example 12, 14.")
        others = incident_store.numbered_all(tx, known.id, {int(one) for one in asked})
        if missing := {int(one) for one in asked} - others.keys():
            raise PerfciError(f"There is no incident {min(missing)} here.")
        revisions = {other.number: other.revision for other in others.values()}
        merge(tx, known, number, _revision(form), revisions, by)

    return _changed(desk, project, number, job)


def split_off(desk: Desk, project: str, number: int) -> Any:
    form, by, chosen = request.form.to_dict(), desk.by(), request.form.getlist("series")

    def job(tx: Session, known: Project) -> None:
        split(tx, known, number, _revision(form), set(stored_series(tx, chosen).values()), by)

    return _changed(desk, project, number, job)


def nudge_edge(desk: Desk, project: str, number: int) -> Any:
    form, by = request.form.to_dict(), desk.by()

    def job(tx: Session, known: Project) -> None:
        steps = form.get("by", "").strip()
        if not steps.lstrip("+-").isdecimal() or len(steps) > 5:
            raise PerfciError("Say by how many commits the edge is to move, for example -1.")
        good, bad = shifted(tx, known, incident_of(tx, known, number), int(steps))
        nudge(tx, known, number, _revision(form), good, bad, by)

    return _changed(desk, project, number, job)


def undo_last(desk: Desk, project: str, number: int) -> Any:
    form, by = request.form.to_dict(), desk.by()
    return _changed(desk, project, number, lambda tx, known: undo(tx, known, number, _revision(form), by))


def change_chosen(desk: Desk, project: str) -> Any:
    """The same change to all that were ticked; what somebody else changed meanwhile is named."""
    form, by = request.form.to_dict(), desk.by()
    picked = [one.partition(":") for one in request.form.getlist("pick")[:MOST_AT_ONCE]]
    revisions = {int(k): int(v) for k, _, v in picked if (k + v).isdecimal() and len(k) < 10 and len(v) < 10}
    try:
        wanted = incident_view.change_of(form)
        found: Bulk = desk.write(lambda tx: change_many(tx, desk.project(tx, project), revisions, wanted, by))
    except PerfciError as error:
        return incidents_page(desk, project, Refused(str(error), incident_view.typed_of(form), frozenset(revisions)))
    if found.stale or found.refused or not found.changed:
        left = frozenset(revisions) - frozenset(found.changed)
        return incidents_page(desk, project, Refused(_of_bulk(found), incident_view.typed_of(form), left))
    return redirect(_links(project).incidents(), 303)


def _of_bulk(found: Bulk) -> str:
    named = ", ".join(f"#{number}" for number in found.stale)
    parts = [f"{len(found.changed)} changed"]
    parts += [f"somebody else changed {named} meanwhile: look again"] if found.stale else []
    parts += [f"#{number}: {why}" for number, why in sorted(found.refused.items())[:5]]
    return "; ".join(parts) if found.changed or found.stale or found.refused else "Nothing was chosen."


def _changed(desk: Desk, project: str, number: int, job: Callable[[Session, Project], object]) -> Any:
    """Back to where the form was; where it could not be done, to the incident with a sentence and what was typed."""
    typed = incident_view.typed_of(request.form)
    try:
        desk.write(lambda tx: job(tx, desk.project(tx, project)))
    except PerfciError as error:
        kept = f" {KEPT}" if isinstance(error, Stale) and typed else ""
        return incident_page(desk, project, number, Refused(f"{error}{kept}", typed))
    links, on_list = _links(project), request.form.get("next") == "list"
    return redirect(links.incidents(changed=number) if on_list else links.incident(number), 303)


KEPT = "What you typed is kept below: save it again if it still holds."


def _changed_one(tx: Session, known: Project) -> tuple[Entry, str] | None:
    """The incident that was just changed from the list, and what of it could be taken back."""
    number = request.args.get("changed", 0, type=int)
    record = incident_store.numbered(tx, known.id, number) if 0 < number < 2**31 else None
    return (Entry(record), incident_view.undo_of(record, incident_store.events(tx, record.id))) if record else None


def _list(desk: Desk, tx: Session, known: Project) -> pages.IncidentsPage:
    look = incident_store.last_look(tx, known.id)
    if look is None:
        return pages.preview(desk.situation(tx, known), desk.clock())
    return pages.incidents_page(tx, known.slug, known.id, look)


def _there(tx: Session, known: Project, number: int) -> Any:
    found = incident_store.numbered(tx, known.id, number)
    if found is None:
        newest = incident_store.listed(tx, known.id, limit=8)
        links = _links(known.slug)
        offers = [Offer(f"#{one.number} {one.headline}", links.incident(one.number)) for one in newest]
        raise Missing(f"The project {known.slug} has no incident {number}.", offers, "Its newest incidents")
    return found


def _revision(form: Mapping[str, str]) -> int:
    text = form.get("revision", "")
    if not text.isdecimal() or len(text) > 9:
        raise PerfciError("The form does not say which revision it was made from: load the page again.")
    return int(text)


def _may_change(known: Project) -> bool:
    return decide(caller(), known, Need.TRIAGE).allowed


def _links(project: str, series: Iterable[Series] = ()) -> Links:
    return Links(project, series, root=request.script_root)
