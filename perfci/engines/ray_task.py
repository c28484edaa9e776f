"""Carry out one claimed order on a node of a Ray cluster, in the clone that lies there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from perfci.config import Config, load_config
from perfci.engines.local_measurement import LocalMeasurement
from perfci.engines.local_worker import LocalWorker
from perfci.net.api_client import ApiClient
from perfci.net.api_schemas.measurement_orders import ClaimedOrder
from perfci.runner.cell_outcomes import CellOutcome
from perfci.runner.git_repository import GitRepository, ensure_perfci_folder
from perfci.runner.locks import machine_lock
from perfci.runner.visit_plan import CommitVisit
from perfci.service.orders.order_queues import OrderQueue, ServerOrderQueue, StoreOrderQueue
from perfci.service.uploads.send_to_server import build_api_client
from perfci.store import Store, open_store


@dataclass(frozen=True, slots=True)
class NodeTask:
    """What a node is told: the order as JSON with its lease, the clone, and where the order came from.

    ``server`` is empty where orders are those of a store, ``db``, that the node shares. The token for a
    server is the node's own.
    """

    claimed: str
    folder: str
    project: str
    server: str = ""
    db: str = ""


class NoTerminal:
    """Progress that nobody sees here: the order has it."""

    def report(self, line: str) -> None: ...
    def start_stage(self, name: str, total: int) -> None: ...
    def set_remaining_processes(self, remaining: int) -> None: ...
    def limit_stage_seconds(self, seconds: float) -> None: ...
    def report_with_time_left(self, line: str) -> None: ...
    def report_process(self, visit: CommitVisit, outcome: CellOutcome) -> None: ...


def carry_out_node_task(task: NodeTask) -> None:
    """Measure an order and close it; begun again after a lost worker, go on with what is stored."""
    repository = GitRepository(Path(task.folder))
    config = load_config(
        repository.root, db="" if task.server else task.db, project=task.project, slug=repository.origin_slug
    )
    with ExitStack() as stack:
        client = stack.enter_context(closing(build_api_client(config, task.server))) if task.server else None
        queue = stack.enter_context(_open_queue(config, client))
        measurement = LocalMeasurement(repository, config, lambda: _open_machine(config), client)
        LocalWorker(queue, measurement, NoTerminal()).carry_out(
            ClaimedOrder.model_validate_json(task.claimed)
        )


@contextmanager
def _open_queue(config: Config, client: ApiClient | None) -> Iterator[OrderQueue]:
    if client is not None:
        yield ServerOrderQueue(client, config.project)
        return
    with closing(_open_store(config)) as store:
        yield StoreOrderQueue(store, config.project, config.settings)


@contextmanager
def _open_machine(config: Config) -> Iterator[Store]:
    owner = f"perfci work --engine ray in {config.root}"
    with machine_lock(config.lock_path, owner=owner, wait=True), closing(_open_store(config)) as store:
        yield store


def _open_store(config: Config) -> Store:
    if f"{config.root}/.perfci/" in config.database_url:
        ensure_perfci_folder(config.root)
    return open_store(config.database_url, create=True, pool=config.settings.store.pool)
