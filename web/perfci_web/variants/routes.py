"""Routes of comparisons of variants: the page, the same as JSON, and steps and goals as CSV."""

from __future__ import annotations

from dataclasses import dataclass

from flask import Blueprint, Response, jsonify, render_template, request
from sqlalchemy.orm import Session

from perfci.model import GoalRecord, VariantComparisonRecord
from perfci.net.url_segments import encode_segment
from perfci.report.series_places import SeriesPlaces
from perfci.store.projects import Project
from perfci.store.queries.comparisons.variant_comparisons import load_goals, load_variant_comparisons
from perfci.store.queries.series_commits_machines import load_commits_by_sha, load_series_of_same_cells
from perfci_web.application_context import web_context
from perfci_web.url_lookups import build_project_links, require_commit, require_project
from perfci_web.variants import view_model
from perfci_web.view_parts.csv_response import build_csv_response

blueprint = Blueprint("variants", __name__)

VARIANTS_PATH = "/<project:project>/variants"

COMPARISONS_PER_PAGE = 4
ROWS_OF_EACH = 24
ROWS_OF_ONE = 120
"""Rows of tables that are shown of each comparison, and of one that is shown alone."""

MAX_CLAUSES = 60
"""Clauses of goals that the page shows, the newest of them."""

COMPARISONS_IN_TWIN = 200
CLAUSES_IN_TWIN = 5000


@dataclass(frozen=True, slots=True)
class SelectedVariants:
    """What an address selects; ``older`` is where older comparisons begin, None where there are none."""

    sha: str
    session: str
    comparisons: list[VariantComparisonRecord]
    goals: list[GoalRecord]
    older: int | None

    @property
    def query(self) -> dict[str, str]:
        return {"commit": self.sha, "session": self.session}


@blueprint.get(VARIANTS_PATH)
def variants_page(project: str) -> str:
    context = web_context()
    with context.store.read() as tx:
        record = require_project(tx, project)
        selected = _load_selected(tx, record, COMPARISONS_PER_PAGE, MAX_CLAUSES)
        shas = {each.sha for each in selected.comparisons} | {goal.head for goal in selected.goals}
        commits = load_commits_by_sha(tx, project, shas)
        policy = context.load_policies(record).policy
        max_rows = ROWS_OF_ONE if len(selected.comparisons) == 1 else ROWS_OF_EACH
        comparisons = [
            view_model.build_variants_view(each, commits.get(each.sha), policy.metric_class_of, max_rows)
            for each in selected.comparisons
        ]
        goals = [view_model.build_goal_view(goal) for goal in selected.goals]
        series = view_model.list_linked_series(comparisons, goals)
        links = build_project_links(project, load_series_of_same_cells(tx, project, series))
    return render_template(
        "variants/variants.html",
        project=project,
        selected=selected,
        comparisons=comparisons,
        goals=goals,
        commits=commits,
        links=links,
        places=SeriesPlaces(series),
        format_parameters=view_model.format_parameters,
    )


@blueprint.get(f"{VARIANTS_PATH}.json")
def variants_json(project: str) -> Response:
    selected = _load_for_twin(project)
    return jsonify(view_model.serialize_variants(project, selected.comparisons, selected.goals))


@blueprint.get(f"{VARIANTS_PATH}.csv")
def variants_csv(project: str) -> Response:
    rows = view_model.list_step_csv_rows(_load_for_twin(project).comparisons)
    return build_csv_response(view_model.STEP_CSV_COLUMNS, rows, f"{encode_segment(project)}-variants.csv")


@blueprint.get("/<project:project>/goals.csv")
def goals_csv(project: str) -> Response:
    rows = view_model.list_goal_csv_rows(_load_for_twin(project).goals)
    return build_csv_response(view_model.GOAL_CSV_COLUMNS, rows, f"{encode_segment(project)}-goals.csv")


def _load_for_twin(project: str) -> SelectedVariants:
    with web_context().store.read() as tx:
        return _load_selected(tx, require_project(tx, project), COMPARISONS_IN_TWIN, CLAUSES_IN_TWIN)


def _load_selected(tx: Session, project: Project, max_comparisons: int, max_clauses: int) -> SelectedVariants:
    """Load the comparisons that the address selects, with their goals and those of two commits."""
    commit, session = request.args.get("commit", ""), request.args.get("session", "")
    sha = require_commit(tx, project.slug, commit).sha if commit else ""
    before = request.args.get("before", type=int)
    stored = load_variant_comparisons(
        tx,
        project.id,
        sha=sha,
        session_uid=session,
        before=before,
        limit=max_comparisons + 1,
    )
    shown = stored[:max_comparisons]
    sessions = [session] if session else [each.session_uid for each in shown]
    goals = load_goals(tx, project.id, session_uids=sessions, limit=max_clauses)
    if before is None and not session:
        goals += load_goals(tx, project.id, head=sha, with_variants=False, limit=max_clauses)
    older = shown[-1].id if len(stored) > len(shown) else None
    return SelectedVariants(sha, session, shown, goals, older)
