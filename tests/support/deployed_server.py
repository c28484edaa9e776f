"""A server as it is deployed: a process of its own, on a free port."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from perfci.cli import run_cli
from perfci.store import open_store
from perfci.store.incidents import expected_changes_and_muted_benchmarks
from perfci.store.queries import measured_samples, runs_and_sessions, series_search
from tests.support.loopback_issuer import Issuer
from tests.support.reserved_ports import get_port_number, reserve_port
from tests.support.signed_job_tokens import OWNER_ID, REPOSITORY_ID, WORKFLOW
from tests.support.warm_command import warm_command

LOCAL_TOKEN = "0123456789abcdef"

INSTALLED = (sys.executable, "-m", "perfci.cli")


@contextlib.contextmanager
def serving(
    folder: Path, *arguments: str, perfci: Sequence[str] = INSTALLED, **variables: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server on a free port, and the address that it printed without the token of the local user, which is
    ``LOCAL_TOKEN``; ended with everything it started, whatever a test did to it.
    """
    local_user = {"PERFCI_LOCAL_TOKEN": LOCAL_TOKEN, "XDG_STATE_HOME": f"{folder}/state"}
    process = subprocess.Popen(
        [*perfci, "serve", "--port", "0", *arguments],
        cwd=folder,
        env={**os.environ, **local_user, **variables},
        text=True,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving "), process.communicate()[1]
        yield process, line.split()[1].partition("?")[0]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@contextlib.contextmanager
def a_bound_server(folder: Path, issuer: Issuer) -> Iterator[str]:
    """A server that lets nobody write without a token, and a project that is bound to a repository."""
    database = f"sqlite:///{folder}/server.db"
    named = ("--db", database, "--project", "acme/model")
    numbers = ("--repository-id", str(REPOSITORY_ID), "--owner-id", str(OWNER_ID))
    assert run_cli(["project", "create", "acme/model", "--db", database]) == 0
    assert run_cli(["project", "bind", "acme/model", *numbers, "--workflow", WORKFLOW, *named]) == 0
    access = {"PERFCI_ACCESS_MODE": "open", "PERFCI_ACCESS_GITHUB_HOST": issuer.address}
    with reserve_port() as held:
        port = str(get_port_number(held))
        address = f"http://127.0.0.1:{port}"
        settings = {"PERFCI_DB": database, "PERFCI_SERVER_PUBLIC_URL": address}
        perfci = [str(warm_command())]
        with serving(folder, "--no-worker", "--port", port, perfci=perfci, **access, **settings):
            yield address


def stored(folder: Path) -> dict[str, str]:
    """The sessions of that project, and of what kind each is."""
    with closing(open_store(f"sqlite:///{folder}/server.db", create=False)) as store, store.read() as tx:
        return {session.uid: session.kind for session in runs_and_sessions.load_sessions(tx, "acme/model")}


def in_history(folder: Path) -> list[str]:
    """The subjects of the commits in the only history of that project, along the line."""
    with closing(open_store(f"sqlite:///{folder}/server.db", create=False)) as store, store.read() as tx:
        (series,) = series_search.search_series(tx, "acme/model")
        return [point.commit.subject for point in measured_samples.load_history(tx, series.id)]


def expected_changes_in(folder: Path) -> list[tuple[str, str, str]]:
    """Of which commits of that project something was announced, what, and where."""
    with closing(open_store(f"sqlite:///{folder}/server.db", create=False)) as store, store.read() as tx:
        return [
            (change.sha, change.match, change.source)
            for change in expected_changes_and_muted_benchmarks.load_expected_changes(tx, "acme/model")
        ]
