"""``perfci judge-worker``: judge what was uploaded, until interrupted or until nothing waits."""

from __future__ import annotations

import signal
import threading
from contextlib import closing
from functools import partial

import click

from perfci.cli.context import config_here, store_to_write
from perfci.cli.logs import write_logs
from perfci.cli.options import global_options
from perfci.service.chores import Chores
from perfci.service.courier import Courier, means_of
from perfci.service.judge_worker import JudgeWorker
from perfci.service.judging import standards_of
from perfci.service.pruning import Retention


@click.command("judge-worker")
@click.option("--once", is_flag=True, help="end as soon as nothing waits")
@global_options
def command(once: bool) -> None:
    """Judge uploads. Any number of these may run; one at a time works, and another takes over when it dies."""
    config = config_here()
    write_logs(config.settings.server.log)
    with closing(store_to_write(config)) as store:
        meanwhile = (Chores(store), Retention(store, config.settings.retention.raw_days))
        worker = JudgeWorker(store, partial(standards_of, config.settings), meanwhile=meanwhile)
        courier = Courier(store, means_of(config.settings, config.secrets))
        if once:
            click.echo(f"{worker.empty()} uploads judged, {courier.empty()} messages sent")
            return
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        carrying = threading.Thread(target=courier.run, args=(stop,), name="perfci-courier")
        carrying.start()
        worker.run(stop, config.settings.server.judge_every_s)
        carrying.join()
