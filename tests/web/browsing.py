"""A real server in a process of its own, and a real browser in front of it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from multiprocessing.connection import Connection

from playwright.sync_api import Browser, sync_playwright

from perfci.store import open_store
from perfci_web import serve
from tests.support.forked_server import FORKS
from tests.support.waiting import WITHIN_S

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str | None:
    """Where this machine keeps a browser; ``PERFCI_CHROMIUM`` names another one."""
    named = os.environ.get("PERFCI_CHROMIUM")
    return (
        named or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    )


@contextlib.contextmanager
def a_server(database: str, *, writable: bool = False, token: str = "") -> Iterator[str]:
    """Serve a database on a free port until the block ends; answers the address.

    Without a token everybody is the local user.
    """
    ready, tell = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_serve, args=(database, writable, token, tell))
    process.start()
    tell.close()
    try:
        yield ready.recv()
    finally:
        process.terminate()
        process.join(WITHIN_S)
        ready.close()


def _serve(database: str, writable: bool, token: str, tell: Connection) -> None:
    store = open_store(database, create=False)
    serve(store, "127.0.0.1", 0, local_token=token, read_only=not writable, on_ready=tell.send)


@contextlib.contextmanager
def a_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield browser
        browser.close()
