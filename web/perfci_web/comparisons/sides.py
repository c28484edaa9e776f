"""Sides of a comparison as addresses name them: commits, branches, tags, machines and variants."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from sqlalchemy.orm import Session

from perfci.model import Commit, Machine, Series, Variant
from perfci.store.projects import Project
from perfci.store.queries.comparisons.pull_request_uploads import list_measured_pull_requests
from perfci.store.queries.comparisons.results_of_runs import ANYWHERE, Place, find_newest_measured_commit
from perfci.store.queries.history_conditions import series_only_in_pulls_condition
from perfci.store.queries.series_commits_machines import (
    load_machines_by_id,
    load_project_series,
    load_variants_by_id,
)
from perfci_web.place_slugs import machine_slug, variant_slug
from perfci_web.url_lookups import (
    MAX_SUGGESTIONS,
    PageNotFound,
    Suggestion,
    build_project_links,
    require_commit,
)

PlaceT = TypeVar("PlaceT", Machine, Variant)

HEAD = "HEAD"
"""The side that is the newest measured commit, whatever its branch."""

MACHINE_PREFIX, VARIANT_PREFIX, PULL_PREFIX = "m/", "v/", "pr/"
"""How a side that is no commit begins once decoded: ``m:h100-lab``, ``v:py3.13`` and ``pr:12``."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side: a commit, and the place it was measured at where places are compared.

    ``text`` is what the address says; ``name`` is what a reader calls it, empty for a sha.
    """

    text: str
    name: str
    commit: Commit
    place: Place = ANYWHERE

    @property
    def is_place(self) -> bool:
        return self.place != ANYWHERE


def resolve_sides(tx: Session, project: Project, base: str, head: str, at: str = "") -> tuple[Side, Side]:
    """Find what the two sides of an address mean; raise ``PageNotFound`` with what there is.

    Two machines or two variants are compared at the commit ``at``, else at the newest one that both
    measured.
    """
    are_places = [text.startswith((MACHINE_PREFIX, VARIANT_PREFIX)) for text in (base, head)]
    if all(are_places) and base[:2] == head[:2]:
        return _resolve_places(tx, project, base, head, at)
    if any(are_places):
        text = f"{base} and {head} are no two sides of one kind: compare machines, variants or commits."
        raise PageNotFound(text.replace("/", ":"))
    return resolve_commit_side(tx, project, base), resolve_commit_side(tx, project, head)


@dataclass(frozen=True, slots=True)
class SideNames:
    """What a form suggests as sides beside commits, as addresses spell it."""

    branches: tuple[str, ...]
    tags: tuple[str, ...]
    machines: tuple[str, ...]
    variants: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.branches, *self.tags, *self.machines, *self.variants)


def list_side_names(tx: Session, project: str, commits: Iterable[Commit]) -> SideNames:
    """List the branches and tags of some commits, and the machines and variants of a project."""
    commits, series = (
        list(commits),
        load_project_series(tx, project, ~series_only_in_pulls_condition()).values(),
    )
    machines = dict.fromkeys(machine_slug(item.machine) for item in series)
    variants = dict.fromkeys(variant_slug(item.variant) for item in series)
    return SideNames(
        tuple(dict.fromkeys(commit.branch for commit in commits if commit.branch)),
        tuple(dict.fromkeys(tag for commit in commits for tag in commit.tags)),
        tuple(f"m:{slug}" for slug in machines) if len(machines) > 1 else (),
        tuple(f"v:{slug}" for slug in variants if slug) if len(variants) > 1 else (),
    )


def resolve_commit_side(tx: Session, project: Project, text: str) -> Side:
    """Find the commit of a branch, a tag or a sha; a branch or tag means its newest measured commit."""
    if text == HEAD:
        newest = find_newest_measured_commit(tx, project.id)
        if newest is not None:
            return Side(text, "newest measured commit", newest)
    if text.startswith(PULL_PREFIX):
        return _resolve_pull_request(tx, project, text)
    for name, commit in (
        (f"branch {text}", find_newest_measured_commit(tx, project.id, branch=text)),
        (f"tag {text}", find_newest_measured_commit(tx, project.id, tag=text)),
    ):
        if commit is not None:
            return Side(text, name, commit)
    return Side(text, "", require_commit(tx, project.slug, text))


def _resolve_pull_request(tx: Session, project: Project, text: str) -> Side:
    """Find the newest measured commit of a pull request."""
    number = text.removeprefix(PULL_PREFIX)
    records = list_measured_pull_requests(tx, project.id, number=number) if number.isdecimal() else []
    if not records:
        links = build_project_links(project.slug)
        suggestions = [
            Suggestion(f"#{record.number}", links.pull_request(record.number))
            for record in list_measured_pull_requests(tx, project.id)[:MAX_SUGGESTIONS]
        ]
        raise PageNotFound(
            f"Nothing that {project.slug} knows was measured for the pull request #{number}.",
            suggestions,
            "Measured last",
        )
    return Side(text, f"pull request #{number}", require_commit(tx, project.slug, records[0].head))


def _resolve_places(tx: Session, project: Project, base: str, head: str, at: str) -> tuple[Side, Side]:
    find_place = _find_machine if base.startswith(MACHINE_PREFIX) else _find_variant
    series = load_project_series(tx, project.slug, ~series_only_in_pulls_condition()).values()
    names, places = zip(
        *(find_place(tx, project.slug, series, text[2:]) for text in (base, head)), strict=True
    )
    if at:
        commit = require_commit(tx, project.slug, at)
    else:
        newest = find_newest_measured_commit(tx, project.id, places)
        if newest is None:
            raise PageNotFound(f"No commit was measured on both {names[0]} and {names[1]}.")
        commit = newest
    return Side(base, names[0], commit, places[0]), Side(head, names[1], commit, places[1])


def _find_machine(tx: Session, project: str, series: Iterable[Series], slug: str) -> tuple[str, Place]:
    machines = dict.fromkeys(item.machine for item in series)
    machine = _find_by_slug(project, machines, machine_slug, slug, MACHINE_PREFIX)
    ids = {stored: row_id for row_id, stored in load_machines_by_id(tx).items()}
    return machine.label, Place(machine_id=ids[machine])


def _find_variant(tx: Session, project: str, series: Iterable[Series], slug: str) -> tuple[str, Place]:
    variants = dict.fromkeys(item.variant for item in series)
    variant = _find_by_slug(project, variants, variant_slug, slug, VARIANT_PREFIX)
    ids = {stored: row_id for row_id, stored in load_variants_by_id(tx).items()}
    return variant.label, Place(variant_id=ids[variant])


def _find_by_slug(
    project: str, places: Iterable[PlaceT], slug_of: Callable[[PlaceT], str], slug: str, prefix: str
) -> PlaceT:
    """Find the machine or variant of a slug; raise ``PageNotFound`` with the slugs that there are."""
    by_slug = {slug_of(place): place for place in places}
    if slug in by_slug:
        return by_slug[slug]
    kind = "machine" if prefix == MACHINE_PREFIX else "variant"
    links = build_project_links(project)
    slugs = sorted(filter(None, by_slug))
    suggestions = [
        Suggestion(f"{first} against {second}", links.compare(f"{prefix}{first}", f"{prefix}{second}"))
        for first, second in pairwise(slugs)
    ]
    text = f"The project {project} has no {kind} {slug}; it has {', '.join(slugs) or 'none with a name'}."
    raise PageNotFound(text, suggestions, f"Compare two {kind}s")
