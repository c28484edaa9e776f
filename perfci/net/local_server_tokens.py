"""Tokens of the servers that run on this machine: each is kept in a file for the user's own commands."""

from __future__ import annotations

import contextlib
import ipaddress
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit


@contextlib.contextmanager
def keep_token_while_serving(folder: Path, url: str, token: str) -> Iterator[None]:
    """Keep the token of a server in a file that only this user can read, until the block ends.

    Where no file can be written, commands need ``PERFCI_TOKEN``; the server serves all the same.
    """
    path = _token_path(folder, url)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if path.read_text() == token:  # else a later server took the port
                path.unlink()


def find_local_token(folder: Path, url: str) -> str:
    """Find the token of the server at a loopback address; nothing for any other address."""
    if not _is_loopback(urlsplit(url).hostname or ""):
        return ""
    try:
        return _token_path(folder, url).read_text()
    except OSError:
        return ""


def _token_path(folder: Path, url: str) -> Path:
    return folder / f"server-{urlsplit(url).port or 80}.token"


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
