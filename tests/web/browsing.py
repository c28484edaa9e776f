"""A real server in a process of its own, and a real browser in front of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

from playwright.sync_api import Browser, sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

SERVE = """
import sys
from perfci.store import open_store
from perfci_web import serve
store = open_store(sys.argv[1], create=False)
options = {"local_token": sys.argv[3], "read_only": sys.argv[2] == "read-only"}
serve(store, "127.0.0.1", 0, **options, on_ready=lambda url: print(url, flush=True))
"""


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
    mode = "writable" if writable else "read-only"
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, database, mode, token], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        assert url, f"the server ended with {process.wait(120)}"
        yield url
    finally:
        process.terminate()
        process.wait(120)
        process.stdout.close()


@contextlib.contextmanager
def a_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield browser
        browser.close()
