"""``perfci judge-worker``: judge uploads, until interrupted or until nothing is pending."""

from __future__ import annotations

import signal
import threading
from contextlib import closing
from functools import partial

import click

from perfci.cli.shared.options import global_options
from perfci.cli.shared.repository_and_config import current_config
from perfci.cli.shared.server_logging import configure_logging
from perfci.cli.shared.store_and_machine_lock import open_store_to_write
from perfci.config import Config
from perfci.project_policies import build_project_policies
from perfci.service.delete_runs_series_projects import DeletionJob
from perfci.service.notify.deliver_notifications import deliver_notifications
from perfci.service.notify.destination_encryption import reencrypt_destinations
from perfci.service.notify.senders import build_sender_config
from perfci.service.partition_samples import SamplePartitionJob
from perfci.service.prune_samples import SamplePruningJob
from perfci.service.pulls.build_github_app import build_github_app
from perfci.service.pulls.github_inbox import build_github_inbox
from perfci.service.pulls.poll_missed_events import POLL_INTERVAL, ReconciliationPoll
from perfci.service.pulls.report_uploads import enqueue_upload_report
from perfci.service.worker.judge_worker import JudgeWorker, PeriodicJobs
from perfci.service.worker.lease import INBOX_LEASE, NOTIFICATION_LEASE, POLL_LEASE, LeasedLoop
from perfci.store import Store


@click.command("judge-worker")
@click.option(
    "--once", is_flag=True, help="process pending work and exit; exit at once if another worker is active"
)
@global_options
def judge_worker_command(once: bool) -> None:
    """Judge uploads. Of several workers one is active at a time; another takes over when it dies.

    It also sends notifications. If the server is a GitHub App ([app]), it reports results on pull requests,
    carries out orders on GitHub and polls it every 15 minutes for missed deliveries.
    """
    config = current_config()
    configure_logging(config.settings.server.log)
    with closing(open_store_to_write(config)) as store:
        reencrypt_destinations(store, config.secrets.secret_key.get_secret_value())
        load_policies = partial(build_project_policies, config.settings)
        periodic_jobs = (
            PeriodicJobs(store, load_policies),
            SamplePruningJob(store, config.settings.retention.raw_days),
            SamplePartitionJob(store, config.settings.retention.partition_days),
            DeletionJob(store),
        )
        worker = JudgeWorker(store, load_policies, periodic_jobs=periodic_jobs)
        if config.settings.app.id:
            worker.report_pull_request = enqueue_upload_report
        senders = build_sender_config(config.settings, config.secrets)
        notifications = LeasedLoop(store, NOTIFICATION_LEASE, partial(deliver_notifications, store, senders))
        inbox, poll = _github_app_loops(config, store)
        if once:
            judged = worker.drain()
            if judged is None:
                click.echo("another worker is active and handles pending work")
                return
            processed = [f"{loop.drain()} GitHub runs processed" for loop in inbox]
            parts = [f"{judged} uploads judged", f"{notifications.drain()} messages sent", *processed]
            click.echo(", ".join(parts))
            return
        _run_until_stopped(worker, [notifications, *inbox, *poll])


def _run_until_stopped(worker: JudgeWorker, loops: list[LeasedLoop]) -> None:
    """Run the worker here and every loop in a thread of its own, until SIGTERM or SIGINT."""
    stop = threading.Event()
    # Python delivers signals to the main thread only, so the worker stays in it.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    threads = [threading.Thread(target=loop.run, args=(stop,), name="perfci-leased-loop") for loop in loops]
    for thread in threads:
        thread.start()
    worker.run(stop)
    for thread in threads:
        thread.join()


def _github_app_loops(config: Config, store: Store) -> tuple[list[LeasedLoop], list[LeasedLoop]]:
    """The loop of the inbox and that of the reconciliation poll; none without a GitHub App."""
    if not config.settings.app.id:
        return [], []
    app = build_github_app(config)
    inbox = LeasedLoop(store, INBOX_LEASE, build_github_inbox(store, app, config.settings))
    poll = LeasedLoop(
        store, POLL_LEASE, ReconciliationPoll(store, app), interval_s=POLL_INTERVAL.total_seconds()
    )
    return [inbox], [poll]
