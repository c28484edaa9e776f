"""A look at a project where it is measured, without a server: its incidents are kept as a server would keep them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from perfci.config import Config
from perfci.policies import policy_of
from perfci.service.incidents.derive_incidents import situation
from perfci.service.incidents.reconcile_incidents import Synced, sync
from perfci.store import Store
from perfci.store.projects import project


def look_again(store: Store, config: Config, tags: Mapping[str, Collection[str]] | None = None) -> Synced:
    """Derive the incidents anew, and write down what changed; ``tags`` as in ``situation``."""
    policy = policy_of(config)
    with store.read() as tx:
        known = project(tx, config.project)
        if known is None:
            return Synced()
        found = situation(tx, config.project, policy, config.settings.history, tags)
    return sync(store, known, policy, found, datetime.now(UTC))
