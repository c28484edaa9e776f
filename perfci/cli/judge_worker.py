"""``perfci judge-worker``: judge what was uploaded, until interrupted or until nothing waits."""

from __future__ import annotations

import signal
import threading
from contextlib import closing
from functools import partial

import click

from perfci.cli.shared.context import current_config, open_store_to_write
from perfci.cli.shared.log_setup import configure_logging
from perfci.cli.shared.options import global_options
from perfci.config import Config
from perfci.policies import load_project_policies
from perfci.service.notify.deliver_notifications import deliver_notifications
from perfci.service.notify.senders import build_sender_config
from perfci.service.pulls.inbox_worker import InboxWorker
from perfci.service.pulls.reconciliation_poll import POLL_INTERVAL, ReconciliationPoll
from perfci.service.pulls.workflow_run_handler import WorkflowRunHandler, build_app
from perfci.service.uploads.retention import RetentionJob
from perfci.service.worker.judge_worker import JudgeWorker
from perfci.service.worker.leased_loop import INBOX_LEASE, NOTIFICATION_LEASE, POLL_LEASE, LeasedLoop
from perfci.service.worker.periodic_jobs import PeriodicJobs
from perfci.store import Store


@click.command("judge-worker")
@click.option("--once", is_flag=True, help="do what waits and end; at once, where another one works")
@global_options
def command(once: bool) -> None:
    """Judge uploads. Any number of these may run; one at a time works, and another takes over when it dies.

    It also sends notifications and, where the server is a GitHub App ([app]), tells pull requests what was measured;
    every quarter of an hour it asks GitHub for runs of which nothing was told here.
    """
    config = current_config()
    configure_logging(config.settings.server.log)
    with closing(open_store_to_write(config)) as store:
        standards = partial(load_project_policies, config.settings)
        meanwhile = (PeriodicJobs(store, standards), RetentionJob(store, config.settings.retention.raw_days))
        worker = JudgeWorker(store, standards, periodic_jobs=meanwhile)
        means = build_sender_config(config.settings, config.secrets)
        messages = LeasedLoop(store, NOTIFICATION_LEASE, partial(deliver_notifications, store, means))
        reports, missed = _github_app_loops(config, store)
        if once:
            judged = worker.drain()
            if judged is None:
                click.echo("another process judges here, and does what waits")
                return
            followed = [f"{one.drain()} runs of GitHub followed" for one in reports]
            click.echo(
                ", ".join([f"{judged} uploads judged", f"{messages.drain()} messages sent", *followed])
            )
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


def _github_app_loops(config: Config, store: Store) -> tuple[list[LeasedLoop], list[LeasedLoop]]:
    """Who tells pull requests what was measured, and who finds what GitHub did not tell: nobody, without an App."""
    if not config.settings.app.id:
        return [], []
    app = build_app(config)
    reports = LeasedLoop(
        store, INBOX_LEASE, InboxWorker(store, WorkflowRunHandler(store, app, config.settings))
    )
    return [reports], [
        LeasedLoop(
            store, POLL_LEASE, ReconciliationPoll(store, app), interval_s=POLL_INTERVAL.total_seconds()
        )
    ]
