"""Open the queue of orders that a command works on: the local store's, or a server's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from perfci.cli.shared.accounts_backend import resolve_backend_address
from perfci.cli.shared.repository_and_config import current_config
from perfci.cli.shared.store_and_machine_lock import (
    local_user_audit_context,
    open_store_to_read,
    open_store_to_write,
)
from perfci.service.accounts.projects_members_tokens import ensure_project
from perfci.service.orders.order_queues import OrderQueue, ServerOrderQueue, StoreOrderQueue
from perfci.service.uploads.send_to_server import build_api_client


@contextmanager
def open_order_queue(server: str, *, writes: bool = False) -> Iterator[OrderQueue]:
    """Open the queue of the project at hand on the server that is named or configured, else in the store."""
    config, address = current_config(), resolve_backend_address(server)
    if address:
        with closing(build_api_client(config, address)) as client:
            yield ServerOrderQueue(client, config.project)
        return
    with closing((open_store_to_write if writes else open_store_to_read)(config)) as store:
        if writes:
            with store.begin() as tx:
                ensure_project(tx, local_user_audit_context(), config.project)
        yield StoreOrderQueue(store, config.project, config.settings)
