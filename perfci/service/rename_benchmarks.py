"""Let the history of a benchmark go on under another name or with a new parameter, or that of a machine.

Rows move when the rename is made, rather than that every query looks for other names: a history is then read
as any other, and what still arrives under the old name is stored under the new one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from sqlalchemy.orm import Session as Transaction

from perfci.config import Config
from perfci.history.series_histories import update_change_points
from perfci.model import Benchmark, NamedValues, PerfciError, Series, freeze_named_values
from perfci.net.api_schemas.renames import RenameShape
from perfci.project_policies import build_policy
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.reconcile_incidents import evaluate_and_reconcile
from perfci.store import Store
from perfci.store.jobs.work_queue_and_leases import enqueue_work
from perfci.store.projects import Project
from perfci.store.queries.renamed_series import (
    count_results_of_series,
    load_newest_run_keys,
    load_renamed_series,
)
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.store.writes.find_or_add_rows import ensure_series_ids
from perfci.store.writes.rename_series import move_results_between_series

RenameKind = Literal["benchmark", "machine"]


@dataclass(frozen=True, slots=True)
class Rename:
    """A benchmark, by its name, or a machine, by its label, that goes on as ``new``.

    ``defaults`` are values of parameters for results that lack them; with equal names only they are added.
    """

    kind: RenameKind
    old: str
    new: str
    defaults: NamedValues = ()


@dataclass(frozen=True, slots=True)
class RenameOutcome:
    """What a rename moves: ``series_ids`` that go on under other ids, and their results.

    ``joined`` counts the series that had a history under the new name before.
    """

    series: int
    results: int
    joined: int
    series_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredRename:
    """A rename as it is stored: what it renamed, and how many series lie under the old name."""

    rename: Rename
    series: int


def preview_rename(tx: Transaction, project: Project, rename: Rename) -> RenameOutcome:
    """Count what a rename would move, and change nothing."""
    all_series = load_project_series(tx, project.slug)
    changed = _plan_targets(project, all_series, rename)
    return _count_moved(tx, all_series, changed)


def rename_series(tx: Transaction, context: AuditContext, project: Project, rename: Rename) -> RenameOutcome:
    """Move the series of a benchmark or machine to another name, with an audit entry, and have them judged.

    Where the new name was measured already, the newest version of the old one joins its newest version:
    versions are hashes of code, in which the name is.
    """
    all_series = load_project_series(tx, project.slug)
    changed = _plan_targets(project, all_series, rename)
    outcome = _count_moved(tx, all_series, changed)
    new_ids = ensure_series_ids(tx, project.id, list(changed.values()), follow=False)
    moved = move_results_between_series(tx, project.id, dict(zip(changed, new_ids, strict=True)))
    defaults = {"defaults": dict(rename.defaults)} if rename.kind == "benchmark" else {}
    detail = {"to": rename.new, **defaults, "series": len(changed)}
    context.add_audit_entry(tx, f"{rename.kind}.rename", rename.old, project.id, detail)
    enqueue_work(tx, project.id, "judge", load_newest_run_keys(tx, new_ids), context.at)
    return replace(outcome, results=moved, series_ids=tuple(sorted(set(new_ids))))


def list_renames(tx: Transaction, project: Project) -> list[StoredRename]:
    """List the renames of a project, in the order in which their names were first seen."""
    counts: Counter[Rename] = Counter()
    for old, new in load_renamed_series(tx, project.slug):
        if old.machine != new.machine:
            counts[Rename("machine", old.machine.label, new.machine.label)] += 1
        added = tuple(pair for pair in new.parameters if pair not in old.parameters)
        if old.benchmark.name != new.benchmark.name or added:
            counts[Rename("benchmark", old.benchmark.name, new.benchmark.name, added)] += 1
    return [StoredRename(rename, count) for rename, count in counts.items()]


def serialize_rename(stored: StoredRename) -> RenameShape:
    """Serialize a rename, for the API and the pages."""
    return RenameShape(
        kind=stored.rename.kind,
        old=stored.rename.old,
        new=stored.rename.new,
        defaults=dict(stored.rename.defaults),
        series=stored.series,
    )


def judge_renamed_series_again(store: Store, config: Config, outcome: RenameOutcome) -> None:
    """Derive changes and incidents of joined histories; the judge worker of a server does so by itself."""
    with store.begin() as tx:
        update_change_points(tx, config.project, outcome.series_ids, build_policy(config.settings))
    evaluate_and_reconcile(store, config)


def _plan_targets(project: Project, all_series: Mapping[int, Series], rename: Rename) -> dict[int, Series]:
    """The series under whose identity each series that changes goes on, by id."""
    if rename.kind == "machine":
        targets = _plan_machine(all_series, rename)
    else:
        targets = _plan_benchmark(all_series, rename)
    changed = {row_id: target for row_id, target in targets.items() if target != all_series[row_id]}
    if not changed:
        raise PerfciError(
            f"{project.slug} has no results of a {rename.kind} {rename.old} that this would change."
        )
    return changed


def _plan_benchmark(all_series: Mapping[int, Series], rename: Rename) -> dict[int, Series]:
    wanted = {name for name, _ in rename.defaults}
    mine, theirs = {}, []
    for row_id, item in sorted(all_series.items()):
        lacks_some = not wanted <= {name for name, _ in item.parameters}
        if item.benchmark.name == rename.old and (rename.old != rename.new or lacks_some):
            mine[row_id] = item
        elif item.benchmark.name == rename.new:
            theirs.append(item)
    versions = _map_versions(mine, theirs)
    defaults = _spell_defaults(rename.defaults, theirs)
    orders = [tuple(name for name, _ in item.parameters) for item in reversed(theirs)]
    return {
        row_id: replace(
            item,
            benchmark=Benchmark(rename.new, versions[item.benchmark.version]),
            parameters=_add_defaults(item.parameters, defaults, orders),
        )
        for row_id, item in mine.items()
    }


def _plan_machine(all_series: Mapping[int, Series], rename: Rename) -> dict[int, Series]:
    mine = {row_id: item for row_id, item in all_series.items() if item.machine.label == rename.old}
    others = [item.machine for _, item in sorted(all_series.items()) if item.machine.label == rename.new]
    return {
        row_id: replace(item, machine=others[-1] if others else replace(item.machine, name=rename.new))
        for row_id, item in mine.items()
    }


def _map_versions(mine: Mapping[int, Series], theirs: Iterable[Series]) -> dict[str, str]:
    """The version under the new name of each version of the old one."""
    versions = {item.benchmark.version: item.benchmark.version for item in mine.values()}
    stored = [item.benchmark.version for item in theirs]
    if stored and mine:
        newest_old = mine[max(mine)].benchmark.version
        if newest_old not in stored:
            versions[newest_old] = stored[-1]
    return versions


def _spell_defaults(defaults: NamedValues, stored: Iterable[Series]) -> dict[str, str]:
    """The values of defaults as the suite writes them: a text stands in quotes where all of them do."""
    measured: dict[str, set[str]] = {name: set() for name, _ in defaults}
    for item in stored:
        for name, value in item.parameters:
            measured.get(name, set()).add(value)

    def spell(name: str, value: str) -> str:
        texts = measured[name]
        is_quoted = bool(texts) and all(text[:1] in "'\"" for text in texts)
        return repr(value) if is_quoted and value[:1] not in "'\"" else value

    return {name: spell(name, value) for name, value in defaults}


def _add_defaults(
    parameters: NamedValues, defaults: Mapping[str, str], orders: Iterable[tuple[str, ...]]
) -> NamedValues:
    """Add the defaults that parameters lack, in the order in which the grid with all of them was measured."""
    values = {**dict(parameters), **{n: v for n, v in defaults.items() if n not in dict(parameters)}}
    order = next((names for names in orders if set(names) == set(values)), tuple(values))
    return freeze_named_values({name: values[name] for name in order})


def _count_moved(
    tx: Transaction, all_series: Mapping[int, Series], changed: Mapping[int, Series]
) -> RenameOutcome:
    stored = set(all_series.values())
    joined = len({target for target in changed.values() if target in stored})
    return RenameOutcome(len(changed), count_results_of_series(tx, list(changed)), joined)
