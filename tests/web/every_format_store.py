"""A small store in which every list of every page has a row, with names that a spreadsheet would run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from page_reading import P
from sqlalchemy.orm import Session
from web_builders import NOW, PROJECT, a_commit, a_run, a_store, a_verdict

from perfci.auth.permissions import LOCAL
from perfci.config import Settings
from perfci.formats.format_types import ImportDefaults
from perfci.history.series_histories import update_change_points
from perfci.model import (
    Benchmark,
    Clock,
    Commit,
    GoalClauseRecord,
    GoalRecord,
    Machine,
    Metric,
    Process,
    Result,
    Run,
    Series,
    Stage,
    Status,
    Variant,
    VariantComparisonRecord,
    VariantStepRecord,
    Verdict,
    VerdictKind,
)
from perfci.project_policies import build_policy
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.evaluate_project import evaluate_project
from perfci.service.incidents.mute_benchmarks import set_benchmark_mute
from perfci.service.incidents.reconcile_incidents import reconcile_incidents
from perfci.service.orders.place_orders import place_order
from perfci.service.rename_benchmarks import Rename, rename_series
from perfci.service.uploads.import_files import import_file_or_folder
from perfci.store import Store
from perfci.store.jobs.measurement_orders import OrderContent
from perfci.store.jobs.notification_destinations import Destination, save_destination
from perfci.store.projects import Project, find_project
from perfci.store.queries.runs_and_sessions import load_runs_of_commit
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.store.verdicts_and_change_points import add_verdicts
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci.store.writes.measured_sessions import find_or_add_run, finish_session, start_session
from perfci.store.writes.variant_comparisons import add_goals, add_variant_comparison
from perfci_web.page_urls import ProjectLinks

FORMULA = "=HYPERLINK(evil)"
"""A name that a spreadsheet would evaluate, were it the start of a cell."""

RENAMED = "@SUM(old)"
MACHINE = Machine(name="-lab")
COMMITS, MOVED_AT, PULL_HEAD = 24, 12, 23
PULL = "12"
PLACES = {"3.12": 1.3, "3.13": 0.7}
"""What the level of the series becomes at either Python from the commit ``MOVED_AT`` on."""


def a_hostile_commit(number: int) -> Commit:
    return replace(a_commit(number), author="+cmd|calc", subject="-2+3")


def a_hostile_series(python: str) -> Series:
    return Series(
        Benchmark(FORMULA, "1"),
        (("n", "@SUM(1)"),),
        Metric("cpu_time", "seconds", "lower"),
        MACHINE,
        Variant((("python", python),)),
    )


def fill_every_list(store: Store, folder: Path) -> None:
    """Store runs at two places, verdicts, incidents, an order, a rename and what waits for a unit."""
    policy, context = build_policy(Settings()), AuditContext(LOCAL, NOW)
    with store.begin() as tx:
        upsert_commits(tx, PROJECT, [a_hostile_commit(number) for number in range(COMMITS)])
        for python in PLACES:
            start_session(tx, PROJECT, f"history-{python}", "history", python, 7, 5, NOW)
            for number in range(COMMITS):
                find_or_add_run(tx, _a_run_in_place(number, python))
            finish_session(tx, f"history-{python}", NOW)
        start_session(tx, PROJECT, "pull", "pull_request", "pull", 7, 0, NOW)
        for number in (PULL_HEAD - 1, PULL_HEAD):
            run = _a_run_in_place(number, "3.12")
            find_or_add_run(tx, replace(run, session="pull", origin=(("compared_pull_request", PULL),)))
        add_verdicts(tx, PROJECT, "pull", [_a_regression()], NOW)
        for night in range(4):
            start_session(tx, PROJECT, f"aa-{night}", "aa", "spec", 7, 0, NOW)
            add_verdicts(tx, PROJECT, f"aa-{night}", [_an_aa_verdict()], NOW - timedelta(days=night))
        _add_variants(tx)
        update_change_points(tx, PROJECT, load_project_series(tx, PROJECT), policy)
    project = _require_project(store)
    with store.read() as tx:
        evaluation = evaluate_project(tx, PROJECT, policy, Settings().history)
    reconcile_incidents(store, project, policy, evaluation, NOW)
    with store.begin() as tx:
        set_benchmark_mute(tx, project, FORMULA, "", context, days=9, reason=FORMULA)
        save_destination(tx, project.id, Destination("chat", "slack", "https://x/secret"))
        order = OrderContent("compare", a_commit(1).sha, a_commit(2).sha, "^a$")
        place_order(tx, context, project, order, "page", incident=1)
        rename_series(tx, context, project, Rename("benchmark", RENAMED, "suite.new"))
    path = folder / "custom.json"
    path.write_text(json.dumps([{"name": FORMULA, "unit": "points", "value": 7}]))
    import_file_or_folder(store, path, "auto", ImportDefaults(PROJECT, a_hostile_commit(1), machine="box"))


def list_page_addresses(store: Store) -> dict[str, str]:
    """The address of one page of every kind, by endpoint."""
    with store.read() as tx:
        run = load_runs_of_commit(tx, PROJECT, a_commit(MOVED_AT).sha)[0]
    links, series = ProjectLinks(PROJECT), a_hostile_series("3.12")
    before, after = a_commit(MOVED_AT - 1).sha, a_commit(MOVED_AT).sha
    return {
        "overview.overview_page": links.overview,
        "benchmarks.benchmarks_page": links.benchmarks(),
        "benchmarks.benchmark_page": links.benchmark(FORMULA),
        "series.series_page": links.series(series),
        "points.point_page": links.point(series, after),
        "graphs.graph_page": links.graph([series, a_hostile_series("3.13")]),
        "comparisons.compare_chooser": links.choose_comparison(),
        "comparisons.compare_page": links.compare(before, after),
        "pull_requests.pull_requests_page": links.pull_requests(),
        "commits.commit_page": links.commit(after),
        "runs.run_page": links.run(run.key),
        "noise.noise_page": links.noise(),
        "incidents.incidents_page": links.incidents(),
        "incidents.incident_page": links.incident(1),
        "changes.changes_page": links.changes(),
        "waterfalls.waterfall_page": links.waterfall(series, since="all"),
        "weeks.week_page": f"{P}/week/2026-W11",
        "search.search_page": links.search(q="e"),
        "unresolved_results.unresolved_results_page": links.unresolved_results(),
        "matrix.matrix_chooser_page": links.choose_matrix(),
        "matrix.matrix_page": links.matrix(FORMULA, "cpu_time"),
        "variants.variants_page": links.variants(),
        "disagreements.disagreements_page": links.disagreements(since="all"),
        "fleet.fleet_page": links.fleet(),
        "environments.environment_page": links.environment(),
        "settings.settings_page": links.settings(),
        "threshold_dry_run.dry_run_page": f"{links.settings('threshold')}?bar=50&days=365",
        "measurement_orders.orders_page": links.orders(),
        "renames.renames_page": links.renames(),
    }


def open_every_format_store(folder: Path) -> Iterator[Store]:
    with closing(a_store(folder)) as store:
        fill_every_list(store, folder)
        yield store


def _add_variants(tx: Session) -> None:
    sha = a_commit(1).sha
    steps = (
        VariantStepRecord(FORMULA, (("n", FORMULA),), "+first"),
        VariantStepRecord(FORMULA, (), "+second", "+first", (_a_regression(),)),
        VariantStepRecord(FORMULA, (), "+third", rejection_reason="-wrong"),
    )
    comparison = VariantComparisonRecord("ablation", FORMULA, sha, "aa-0", NOW, steps)
    add_variant_comparison(tx, PROJECT, comparison)
    clause = GoalClauseRecord("cpu_time <= 0.9x", "broken", a_hostile_series("3.12"), 1.2)
    add_goals(tx, PROJECT, [GoalRecord(FORMULA, "", "broken", "", sha, sha, "aa-0", NOW, (clause,))])


def _a_run_in_place(number: int, python: str) -> Run:
    level = 0.01 * (PLACES[python] if number >= MOVED_AT else 1)
    variant = Variant((("python", python),))
    results = [_a_result(a_hostile_series(python), level, number)]
    if python == "3.12" and number < 2:
        old = replace(a_hostile_series(python), benchmark=Benchmark(RENAMED, "1"))
        results.append(_a_result(old, level, number))
    return replace(
        a_run(number),
        session=f"history-{python}",
        commit=a_hostile_commit(number),
        machine=MACHINE,
        variant=variant,
        results=tuple(results),
        started_at=NOW - timedelta(hours=30 - number),
        finished_at=NOW - timedelta(hours=30 - number, minutes=-5),
    )


def _a_result(series: Series, level: float, number: int) -> Result:
    samples = tuple(level * (1 + 0.001 * ((number * 7 + k) % 5)) for k in range(4))
    return Result(series, Status.OK, (Process(0, samples=samples, clock=Clock.CPU, round=0, started_at=NOW),))


def _a_regression() -> Verdict:
    return a_verdict(a_hostile_series("3.12"), PULL_HEAD, VerdictKind.REGRESSION, 1.2, (1.1, 1.3))


def _an_aa_verdict() -> Verdict:
    series = a_hostile_series("3.12")
    verdict = a_verdict(series, 1, VerdictKind.UNCHANGED, 1.01, (1.0, 1.02), stage=Stage.SCREENING)
    return replace(verdict, base=verdict.head)


def _require_project(store: Store) -> Project:
    with store.read() as tx:
        project = find_project(tx, PROJECT)
    assert project is not None
    return project
