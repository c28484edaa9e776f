"""The access of a server that is about to start: whether it accepts changes, and in which mode."""

from __future__ import annotations

import ipaddress

from perfci.config import Settings
from perfci.model import PerfciError


def server_allows_writes(host: str, mode: str, *, read_only: bool, writable: bool) -> bool:
    """Whether this server accepts changes: locally from anyone, on a network only with a login."""
    if read_only and writable:
        raise PerfciError("--read-only and --writable contradict each other: give one of them.")
    if read_only:
        return False
    safe = mode != "local" or is_loopback(host)
    if writable and not safe:
        raise PerfciError(
            f"Whoever reaches {host} could write without a login: set [access] mode to open, github "
            "or proxy, serve on 127.0.0.1, or omit --writable."
        )
    return safe


def has_local_user(host: str, mode: str) -> bool:
    """Whether this server takes who shows its token for the user of this machine."""
    return mode == "local" and is_loopback(host)


def effective_access_settings(host: str, settings: Settings) -> Settings:
    """Replace the access mode "local" by "open" for a server on a network: there is no local user there."""
    if settings.access.mode != "local" or is_loopback(host):
        return settings
    return settings.model_copy(update={"access": settings.access.model_copy(update={"mode": "open"})})


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server on this host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def list_network_warnings(host: str, settings: Settings, *, read_only: bool) -> list[str]:
    """What who starts a server has to know about those who reach it."""
    if is_loopback(host):
        return []
    warnings = [READ_ONLY_NOTICE] if settings.access.mode == "local" and not read_only else []
    if not settings.server.public_url.startswith("https://"):
        warnings.append(PLAIN_TEXT_WARNING.format(host=host))
    return warnings


PLAIN_TEXT_WARNING = (
    "warning: listens on {host}, beyond this machine, and what is sent there can be read on the way: put a "
    "proxy with TLS in front and name its address in [server] public_url (docs/proxies.md)"
)

READ_ONLY_NOTICE = (
    "read-only and without private projects, because there is no login here: [access] mode lets people and "
    "uploads in, `perfci project set NAME --visibility public` shows a project to everybody"
)
