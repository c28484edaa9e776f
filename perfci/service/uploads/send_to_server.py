"""Send runs to a server through the local spool."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from perfci.config import Config
from perfci.formats import run_document
from perfci.formats.format_types import WarnCallback
from perfci.model import PerfciError, Run
from perfci.net.api_client import ApiClient
from perfci.net.api_schemas.pull_requests import PullRequestVerdictShape
from perfci.net.api_schemas.verdicts_and_expected_changes import NewExpectedChange, NewExpectedChanges
from perfci.net.github_job_auth import GitHubJobAuth
from perfci.net.http_client import open_http_client
from perfci.net.local_server_tokens import find_local_token
from perfci.net.spool_sender import FlushReport, FlushRetryPolicy, flush_spool
from perfci.net.upload_spool import Spool
from perfci.service.uploads.read_result_files import FileReading
from perfci.service.uploads.resolve_units import format_metric_option, resolve_imported_run
from perfci.store import Store
from perfci.store.queries import measured_samples, runs_and_sessions
from perfci.store.queries.history_conditions import PURPOSE_FIELD
from perfci.store.unresolved_results import UnitAnswer
from perfci.verdicts.expected_change import MergedExpectedChange

JUDGING_TIMEOUT_S, JUDGING_POLL_S = 600.0, 2.0
"""How long to wait for a verdict, and between two questions; a judge worker takes seconds."""


def resolve_server_url(config: Config, option: str = "") -> str:
    """Return the server URL of the command line option or the configuration."""
    server = option or config.settings.client.server
    if not server:
        raise PerfciError(
            "No server is named: give --server https://perf.example.com, "
            "or set server in [client] of perfci.toml."
        )
    return server.rstrip("/")


def open_spool(config: Config) -> Spool:
    """Open the configured spool folder."""
    return Spool(config.root / config.settings.client.spool)


def build_api_client(config: Config, server: str) -> ApiClient:
    """Build the API client; a GitHub Actions job without a token logs in by OIDC.

    A server that this user runs on this machine is shown the token that it printed.
    """
    token = config.secrets.token.get_secret_value() or find_local_token(config.state_folder, server)
    job = config.github
    if token or job is None:
        return ApiClient(open_http_client(server, token=token))
    login = GitHubJobAuth(job.id_token_url, job.id_token_secret.get_secret_value(), server, config.project)
    return ApiClient(open_http_client(server, auth=login))


def build_spool_retry_policy(config: Config) -> FlushRetryPolicy:
    """Build the retry policy of the spool from the configuration."""
    return FlushRetryPolicy(give_up_after_s=config.settings.client.give_up_after_s)


def spool_and_send_runs(config: Config, server: str, runs: Iterable[Run]) -> FlushReport:
    """Write all runs to the spool, then send the spool, earlier runs included."""
    spool = open_spool(config)
    with closing(build_api_client(config, server)) as client:
        for run in runs:
            spool.add_document(
                run_document.dump_run(run).encode(), run_document.idempotency_key(run), client.server_url
            )
        return flush_spool(spool, client, build_spool_retry_policy(config))


def set_run_purpose(run: Run, purpose: str) -> Run:
    """Say in the origin of a run what it was measured for; empty for the history."""
    return replace(run, origin=(*run.origin, (PURPOSE_FIELD, purpose))) if purpose else run


def wait_for_pull_request_verdict(
    config: Config,
    server: str,
    number: int,
    head: str,
    *,
    timeout_s: float = JUDGING_TIMEOUT_S,
    sleep: Callable[[float], None] = time.sleep,
) -> PullRequestVerdictShape:
    """Wait until what a head of a pull request uploaded is judged."""
    waited_s = 0.0
    with closing(build_api_client(config, server)) as client:
        while (verdict := client.get_pull_request_verdict(config.project, number, head)).pending:
            if waited_s >= timeout_s:
                raise PerfciError(
                    f"The uploads of the pull request {number} are stored, and after {timeout_s:.0f} s "
                    "still not judged: does a judge worker of the server run?"
                )
            sleep(JUDGING_POLL_S)
            waited_s += JUDGING_POLL_S
    return verdict


def send_spooled_runs(config: Config, server: str) -> FlushReport:
    """Send the runs in the spool."""
    with closing(build_api_client(config, server)) as client:
        return flush_spool(open_spool(config), client, build_spool_retry_policy(config))


def send_expected_changes(
    config: Config, server: str, expected_changes: Iterable[MergedExpectedChange]
) -> int:
    """Send authorized expected changes to a server; return how many were new."""
    items: dict[tuple[str, str, datetime | None], list[NewExpectedChange]] = defaultdict(list)
    for change in expected_changes:
        expected = change.expected
        about = NewExpectedChange(
            match=expected.match, relative_change=expected.change, reason=expected.reason
        )
        items[change.sha, change.source, change.merged_at].append(about)
    with closing(build_api_client(config, server)) as client:
        return sum(
            client.add_expected_changes(
                config.project,
                NewExpectedChanges(commit=sha, source=source, merged_at=at, items=tuple(items)),
            ).added
            for (sha, source, at), items in items.items()
        )


def read_runs_to_send(
    file: Path,
    format_name: str,
    reading: FileReading | None,
    units: Mapping[str, UnitAnswer],
    warn: WarnCallback,
) -> Iterator[Run]:
    """Read the runs of a file of any format; perfci documents name their own project and need no ``reading``.

    Results whose unit is unknown stay here, with a warning that says how they are sent later.
    """
    if format_name == "perfci" or reading is None:
        yield from run_document.read_runs(file)
        return
    for document in reading.read_file(file, format_name, warn):
        resolved = resolve_imported_run(document, units)
        for item in resolved.unresolved:
            warn(f"not sent: {item.reason}; send the file again with {format_metric_option(item)}")
        if resolved.run.results:
            yield resolved.run


def load_runs_of_session(store: Store, uid: str) -> list[Run]:
    """Load the stored runs of a session."""
    with store.read() as tx:
        return [
            measured_samples.load_run(tx, run_id)
            for run_id in runs_and_sessions.load_session_run_ids(tx, uid)
        ]
