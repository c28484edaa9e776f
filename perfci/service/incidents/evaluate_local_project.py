"""Evaluate a local project and reconcile its incidents, without a server."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from perfci.config import Config
from perfci.policies import build_policy
from perfci.service.incidents.compute_evaluation import derive_evaluation
from perfci.service.incidents.reconcile_incidents import ReconcileResult, reconcile_incidents
from perfci.store import Store
from perfci.store.projects import find_project


def evaluate_local_project(
    store: Store, config: Config, tags: Mapping[str, Collection[str]] | None = None
) -> ReconcileResult:
    """Derive the incidents and store what changed; ``tags`` as in ``derive_evaluation``."""
    policy = build_policy(config)
    with store.read() as tx:
        project = find_project(tx, config.project)
        if project is None:
            return ReconcileResult()
        evaluation = derive_evaluation(tx, config.project, policy, config.settings.history, tags)
    return reconcile_incidents(store, project, policy, evaluation, datetime.now(UTC))
