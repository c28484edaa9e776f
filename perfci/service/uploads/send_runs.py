"""Runs on their way to a server: into the spool first, then over the wire."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

from perfci.config import Config
from perfci.formats import Given, Warn, detect_format, read_documents, run_document
from perfci.model import PerfciError, Run
from perfci.net.api_client import Client
from perfci.net.github_job_auth import JobLogin
from perfci.net.http_client import open_client
from perfci.net.shapes.expected_changes import NewAnnouncement, NewAnnouncements
from perfci.net.spool_sender import Flushed, Patience, flush
from perfci.net.upload_spool import Spool
from perfci.store import Store
from perfci.store.queries import measurements, run_lookup
from perfci.verdicts.incidents.expected_change_match import Arrived


def server_of(config: Config, given: str = "") -> str:
    """The server that was named on the command line or is configured."""
    server = given or config.settings.client.server
    if not server:
        raise PerfciError(
            "No server is named: give --server https://perf.example.com, or set server in [client] of perfci.toml."
        )
    return server.rstrip("/")


def spool_of(config: Config) -> Spool:
    return Spool(config.root / config.settings.client.spool)


def client_of(config: Config, server: str) -> Client:
    """A job of GitHub Actions needs no token of ours: GitHub signs what it is."""
    token, job = config.secrets.token.get_secret_value(), config.github
    if token or job is None:
        return Client(open_client(server, token=token))
    login = JobLogin(job.id_token_url, job.id_token_secret.get_secret_value(), server, config.project)
    return Client(open_client(server, login=login))


def patience_of(config: Config) -> Patience:
    client = config.settings.client
    return Patience(give_up_after_s=client.give_up_after_s, keep_days=client.keep_days)


def upload(config: Config, server: str, runs: Iterable[Run]) -> Flushed:
    """Keep all runs on disk, then send them and whatever waited before them."""
    spool = spool_of(config)
    with closing(client_of(config, server)) as client:
        for run in runs:
            spool.put(run_document.write(run).encode(), run_document.idempotency_key(run), client.server)
        return flush(spool, client, patience_of(config))


def send_waiting(config: Config, server: str) -> Flushed:
    """Send what waits for a server."""
    with closing(client_of(config, server)) as client:
        return flush(spool_of(config), client, patience_of(config))


def tell_announced(config: Config, server: str, arrived: Iterable[Arrived]) -> int:
    """Tell a server what was announced and counts; answers how many it had not been told before."""
    told: dict[tuple[str, str, datetime | None], list[NewAnnouncement]] = defaultdict(list)
    for one in arrived:
        said = one.announcement
        about = NewAnnouncement(match=said.match, change=said.change, reason=said.reason)
        told[one.sha, one.source, one.at].append(about)
    with closing(client_of(config, server)) as client:
        return sum(
            client.announce(
                config.project, NewAnnouncements(commit=sha, source=source, arrived_at=at, items=tuple(items))
            ).kept
            for (sha, source, at), items in told.items()
        )


def runs_in(path: Path, project: str, warn: Warn) -> Iterator[Run]:
    """The runs of a file of any format; documents of our own name their project themselves."""
    name = detect_format(path)
    if name == "perfci":
        yield from run_document.read_all(path)
    else:
        yield from (document.run for document in read_documents(path, name, Given(project), warn))


def runs_of_session(store: Store, uid: str) -> list[Run]:
    with store.read() as tx:
        return [measurements.load_run(tx, run_id) for run_id in run_lookup.runs_of_session(tx, uid)]
