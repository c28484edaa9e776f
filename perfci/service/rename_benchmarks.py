"""Let the history of a benchmark go on under another name or with a new parameter, or that of a machine.

Rows move when the rename is made, rather than that every query looks for other names: a history is then read
as any other, and what still arrives under the old name is stored under the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session as Transaction

from perfci.config import Config
from perfci.history.series_histories import update_change_points
from perfci.model import Benchmark, PerfciError, Series, freeze_named_values
from perfci.project_policies import build_policy
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.reconcile_incidents import evaluate_and_reconcile
from perfci.store import Store
from perfci.store.projects import Project
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.store.writes.find_or_add_rows import ensure_series_ids
from perfci.store.writes.rename_series import move_results_between_series


@dataclass(frozen=True, slots=True)
class RenameOutcome:
    """What a rename moved: ``series`` that go on under other ids, and their results."""

    series_ids: tuple[int, ...]
    results: int


def rename_benchmark(
    tx: Transaction,
    context: AuditContext,
    project: Project,
    old: str,
    new: str,
    defaults: Mapping[str, str],
) -> RenameOutcome:
    """Move all series of a benchmark to another name, with ``defaults`` for parameters they lack.

    Where the new name was measured already, the newest version of the old one joins its newest version:
    versions are hashes of code, in which the name is. Equal names only add parameters.
    """
    all_series = load_project_series(tx, project.slug)
    mine = {row_id: item for row_id, item in all_series.items() if item.benchmark.name == old}
    versions = _map_versions(mine, all_series, new)
    targets = {
        row_id: replace(
            item,
            benchmark=Benchmark(new, versions[item.benchmark.version]),
            parameters=_add_defaults(item, defaults),
        )
        for row_id, item in mine.items()
    }
    outcome = _move(tx, project, mine, targets)
    if not outcome.series_ids:
        raise PerfciError(f"{project.slug} has no results of a benchmark {old} that this would change.")
    detail = {"to": new, "defaults": dict(defaults), "series": len(outcome.series_ids)}
    context.add_audit_entry(tx, "benchmark.rename", old, project.id, detail)
    return outcome


def rename_machine(
    tx: Transaction, context: AuditContext, project: Project, old: str, new: str
) -> RenameOutcome:
    """Move all series of a machine, by its label, to another machine of the project, or to a new name."""
    all_series = load_project_series(tx, project.slug)
    mine = {row_id: item for row_id, item in all_series.items() if item.machine.label == old}
    others = [item.machine for _, item in sorted(all_series.items()) if item.machine.label == new]
    targets = {
        row_id: replace(item, machine=others[-1] if others else replace(item.machine, name=new))
        for row_id, item in mine.items()
    }
    outcome = _move(tx, project, mine, targets)
    if not outcome.series_ids:
        raise PerfciError(f"{project.slug} has no results of a machine {old} that this would change.")
    detail = {"to": new, "series": len(outcome.series_ids)}
    context.add_audit_entry(tx, "machine.rename", old, project.id, detail)
    return outcome


def judge_renamed_series_again(store: Store, config: Config, outcome: RenameOutcome) -> None:
    """Derive changes and incidents of the joined histories."""
    with store.begin() as tx:
        update_change_points(tx, config.project, outcome.series_ids, build_policy(config.settings))
    evaluate_and_reconcile(store, config)


def _map_versions(mine: Mapping[int, Series], all_series: Mapping[int, Series], new: str) -> dict[str, str]:
    """The version under the new name of each version of the old one."""
    versions = {item.benchmark.version: item.benchmark.version for _, item in sorted(mine.items())}
    stored = [item.benchmark for _, item in sorted(all_series.items()) if item.benchmark.name == new]
    if stored and mine:
        newest_old = mine[max(mine)].benchmark.version
        if all(benchmark.version != newest_old for benchmark in stored):
            versions[newest_old] = stored[-1].version
    return versions


def _add_defaults(series: Series, defaults: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return freeze_named_values({**defaults, **dict(series.parameters)})


def _move(
    tx: Transaction, project: Project, mine: Mapping[int, Series], targets: Mapping[int, Series]
) -> RenameOutcome:
    """Move the series whose target is another one."""
    changed = {row_id: target for row_id, target in targets.items() if target != mine[row_id]}
    new_ids = ensure_series_ids(tx, project.id, list(changed.values()), follow=False)
    renamed = dict(zip(changed, new_ids, strict=True))
    return RenameOutcome(tuple(sorted(set(new_ids))), move_results_between_series(tx, project.id, renamed))
