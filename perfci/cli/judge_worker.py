"""``perfci judge-worker``: judge what was uploaded, until interrupted or until nothing waits."""

from __future__ import annotations

import signal
import threading
from contextlib import closing
from functools import partial

import click

from perfci.cli.shared.context import config_here, store_to_write
from perfci.cli.shared.log_setup import write_logs
from perfci.cli.shared.options import global_options
from perfci.config import Config
from perfci.policies import standards_of
from perfci.service.notify.deliver_notifications import deliver
from perfci.service.notify.senders import means_of
from perfci.service.pulls.inbox_worker import Reporting
from perfci.service.pulls.reconciliation_poll import EVERY, CatchingUp
from perfci.service.pulls.workflow_run_handler import Follower, app_of
from perfci.service.uploads.retention import Retention
from perfci.service.worker.judge_worker import JudgeWorker
from perfci.service.worker.leased_loop import MESSAGES, MISSED, REPORTS, Courier
from perfci.service.worker.periodic_jobs import Chores
from perfci.store import Store


@click.command("judge-worker")
@click.option("--once", is_flag=True, help="do what waits and end; at once, where another one works")
@global_options
def command(once: bool) -> None:
    """Judge uploads. Any number of these may run; one at a time works, and another takes over when it dies.

    It also sends notifications and, where the server is a GitHub App ([app]), tells pull requests what was measured;
    every quarter of an hour it asks GitHub for runs of which nothing was told here.
    """
    config = config_here()
    write_logs(config.settings.server.log)
    with closing(store_to_write(config)) as store:
        standards = partial(standards_of, config.settings)
        meanwhile = (Chores(store, standards), Retention(store, config.settings.retention.raw_days))
        worker = JudgeWorker(store, standards, meanwhile=meanwhile)
        means = means_of(config.settings, config.secrets)
        messages = Courier(store, MESSAGES, partial(deliver, store, means))
        reports, missed = _of_the_app(config, store)
        if once:
            judged = worker.empty()
            if judged is None:
                click.echo("another process judges here, and does what waits")
                return
            followed = [f"{one.empty()} runs of GitHub followed" for one in reports]
            click.echo(", ".join([f"{judged} uploads judged", f"{messages.empty()} messages sent", *followed]))
            return
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        carrying = [
            threading.Thread(target=one.run, args=(stop,), name="perfci-courier")
            for one in (messages, *reports, *missed)
        ]
        for thread in carrying:
            thread.start()
        worker.run(stop, config.settings.server.judge_every_s)
        for thread in carrying:
            thread.join()


def _of_the_app(config: Config, store: Store) -> tuple[list[Courier], list[Courier]]:
    """Who tells pull requests what was measured, and who finds what GitHub did not tell: nobody, without an App."""
    if not config.settings.app.id:
        return [], []
    app = app_of(config)
    reports = Courier(store, REPORTS, Reporting(store, Follower(store, app, config.settings)))
    return [reports], [Courier(store, MISSED, CatchingUp(store, app), every_s=EVERY.total_seconds())]
