"""``perfci work``: carry out measurement orders on this machine."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import click

from perfci.cli.orders.order_queue import open_order_queue
from perfci.cli.shared.accounts_backend import backend_option, resolve_backend_address
from perfci.cli.shared.options import global_options
from perfci.cli.shared.repository_and_config import current_repository, load_repository_config
from perfci.cli.shared.store_and_machine_lock import lock_machine_and_open_store
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.config import Config
from perfci.engines.engine import EngineWorker
from perfci.engines.local_measurement import LocalMeasurement
from perfci.engines.local_worker import LocalWorker, name_worker
from perfci.engines.ray_engine import RayEngine
from perfci.number_format import format_count
from perfci.service.orders.check_order_content import LOCAL_ENGINE, RAY_ENGINE
from perfci.service.uploads.send_to_server import build_api_client
from perfci.store import Store


@click.command("work")
@click.option(
    "--engine",
    type=click.Choice((LOCAL_ENGINE, RAY_ENGINE)),
    default=LOCAL_ENGINE,
    show_default=True,
    help="measure here, or hand the orders of ray to the cluster of [engines] ray_address",
)
@click.option("--once", is_flag=True, help="end when no order waits")
@backend_option
@global_options
def work_command(engine: str, once: bool, server: str) -> int:
    """Carry out the measurement orders of this project, one at a time, until it is stopped.

    Run it in a clone of the measured repository: it fetches the commits that it lacks, measures under the
    lock of the machine into the local store, and sends the runs to the server that the orders come from.
    An order whose worker is lost is claimed by the next one, which goes on where it was on this machine.
    Exit code 0, or 130 if it was interrupted by the keyboard.
    """
    repository = current_repository()
    config, progress = load_repository_config(repository), TerminalProgress()
    address = resolve_backend_address(server)
    if engine == RAY_ENGINE:
        return _work_through_ray(config, server, address, progress, once=once)
    with ExitStack() as stack:
        queue = stack.enter_context(open_order_queue(server, writes=True))
        client = stack.enter_context(closing(build_api_client(config, address))) if address else None
        measurement = LocalMeasurement(repository, config, lambda: _open_machine(config, progress), client)
        worker = LocalWorker(queue, measurement, progress)
        return _carry_out_orders(worker, once=once)


def _work_through_ray(
    config: Config, server: str, address: str, progress: TerminalProgress, *, once: bool
) -> int:
    """Hand orders to the configured Ray cluster and follow them."""
    folder = config.settings.engines.ray_folder or str(config.root)
    db = "" if address else config.database_url
    ray = RayEngine(config.settings, folder, config.project, address, db)
    ray.connect()
    with closing(ray), open_order_queue(server, writes=True) as queue:
        worker = EngineWorker(queue, ray, name_worker(), progress.report)
        return _carry_out_orders(worker, once=once)


def _carry_out_orders(worker: LocalWorker | EngineWorker, *, once: bool) -> int:
    """Run a worker until it is stopped, or until no order waits."""
    terminated = _stop_on_sigterm(worker)
    try:
        count = worker.run(until_empty=once)
    except KeyboardInterrupt:
        if not terminated:
            raise
        return 0
    click.echo(f"{format_count(count, 'order')} carried out")
    return 0


@contextmanager
def _open_machine(config: Config, progress: TerminalProgress) -> Iterator[Store]:
    with lock_machine_and_open_store(config, "perfci work", progress) as store:
        yield store


def _stop_on_sigterm(worker: LocalWorker | EngineWorker) -> list[int]:
    """Let SIGTERM stop the worker as the keyboard does; the list that is returned holds the signal then."""
    terminated: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        if not terminated:
            terminated.append(number)
            worker.stop.set()
            raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    return terminated
