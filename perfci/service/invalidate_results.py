"""Mark a run or a point as invalid, or as valid again: audited, and judged again without or with it.

What is marked is kept and shown; no history, verdict or incident rests on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.config import Config
from perfci.history.series_histories import update_change_points
from perfci.model import InvalidMark, PerfciError
from perfci.net.api_schemas.invalid_marks import InvalidMarkShape
from perfci.project_policies import build_policy
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.reconcile_incidents import evaluate_and_reconcile
from perfci.store import Store
from perfci.store.jobs.work_queue_and_leases import enqueue_work
from perfci.store.projects import Project
from perfci.store.queries.invalid_marks import InvalidMarkRecord, list_invalid_marks
from perfci.store.queries.judging_inputs import load_series_ids_of_runs
from perfci.store.queries.paged_lists import find_series_by_identity
from perfci.store.queries.runs_and_sessions import find_project_run_id
from perfci.store.queries.series_commits_machines import find_commit
from perfci.store.writes.invalid_marks import find_runs_of_point, set_result_mark, set_run_mark

MAX_REASON_LENGTH = 500


@dataclass(frozen=True, slots=True)
class MarkTarget:
    """What a mark is on: a run by its key, or the point of a series, by its id, at a commit."""

    run_key: str = ""
    series: str = ""
    sha: str = ""

    def __str__(self) -> str:
        return f"run {self.run_key}" if self.run_key else f"series {self.series} at {self.sha[:10]}"

    def build_missing_error(self, project: str) -> PerfciError:
        """The error where a project has no such run or point."""
        return PerfciError(f"{project} has no {self}; nothing was marked.")


def set_mark(
    tx: Transaction, context: AuditContext, project: Project, target: MarkTarget, reason: str | None
) -> list[str]:
    """Mark a run or point as invalid for a reason, or with None as valid again.

    Returns the keys of its runs, which are to be judged again; none where there is no such run or point.
    """
    mark = _build_mark(context, reason)
    series_id, runs = _find_runs(tx, project, target)
    changed = []
    for run_id, key in runs:
        if series_id is None:
            is_changed = set_run_mark(tx, project.id, run_id, mark)
        else:
            is_changed = set_result_mark(tx, project.id, run_id, series_id, mark)
        if is_changed:
            changed.append(key)
    if changed:
        _record_change(tx, context, project, target, changed, mark)
    return [key for _, key in runs]


def list_marks(tx: Transaction, project: Project) -> list[InvalidMarkShape]:
    """List the marks of a project, as the API shows them."""
    return [serialize_mark(record) for record in list_invalid_marks(tx, project.id)]


def serialize_mark(record: InvalidMarkRecord) -> InvalidMarkShape:
    """Serialize a mark with the run it is on."""
    return InvalidMarkShape(
        run=record.run_key,
        commit=record.sha,
        series=record.series_identity,
        reason=record.mark.reason,
        marked_by=record.mark.marked_by,
        marked_at=record.mark.marked_at,
    )


def judge_marked_runs_again(store: Store, config: Config, run_keys: list[str]) -> None:
    """Derive again what a local store knows of these runs; the judge worker of a server does so by itself."""
    policy = build_policy(config.settings)
    with store.begin() as tx:
        update_change_points(tx, config.project, load_series_ids_of_runs(tx, run_keys), policy)
    evaluate_and_reconcile(store, config)


def _find_runs(
    tx: Transaction, project: Project, target: MarkTarget
) -> tuple[int | None, list[tuple[int, str]]]:
    """The id of the series of a point, and the ids and keys of its runs; of a run, itself alone."""
    if target.run_key:
        run_id = find_project_run_id(tx, project.id, target.run_key)
        return None, [] if run_id is None else [(run_id, target.run_key)]
    series = find_series_by_identity(tx, project.id, target.series)
    commit = find_commit(tx, project.slug, target.sha)
    if series is None or commit is None:
        return None, []
    return series.id, find_runs_of_point(tx, project.id, series.id, commit.sha)


def _build_mark(context: AuditContext, reason: str | None) -> InvalidMark | None:
    if reason is None:
        return None
    text = reason.strip()
    if not text or len(text) > MAX_REASON_LENGTH:
        raise PerfciError(f"A reason of 1 to {MAX_REASON_LENGTH} characters is needed: why is it invalid?")
    return InvalidMark(text, context.actor.name, context.at)


def _record_change(
    tx: Transaction,
    context: AuditContext,
    project: Project,
    target: MarkTarget,
    run_keys: list[str],
    mark: InvalidMark | None,
) -> None:
    noun = "run" if target.run_key else "point"
    subject = target.run_key or f"{target.series} {target.sha}"
    action, detail = ("validate", {}) if mark is None else ("invalidate", {"reason": mark.reason})
    context.add_audit_entry(tx, f"{noun}.{action}", subject, project.id, detail)
    enqueue_work(tx, project.id, "judge", run_keys, context.at)
