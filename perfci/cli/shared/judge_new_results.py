"""Judge histories after results of other tools were stored: their change points and incidents."""

from __future__ import annotations

from perfci.config import Config
from perfci.history.series_histories import update_change_points
from perfci.project_policies import build_policy
from perfci.service.incidents.reconcile_incidents import evaluate_and_reconcile
from perfci.store import Store
from perfci.store.queries.measured_series import load_series_ids_with_newer_results
from perfci.store.verdicts_and_change_points import load_change_points


def judge_new_results(store: Store, config: Config, after_result: int) -> int:
    """Judge the series with results newer than the id ``after_result``; return all change points' count."""
    with store.begin() as tx:
        series_ids = load_series_ids_with_newer_results(tx, config.project, after_result)
        update_change_points(tx, config.project, series_ids, build_policy(config.settings))
        change_points = load_change_points(tx, config.project)
    evaluate_and_reconcile(store, config)
    return len(change_points)
