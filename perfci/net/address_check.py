"""Which addresses a message of ours may be sent to: the public internet, and the networks an operator named."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence

from perfci.model import PerfciError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Sequence[str]]

UNICAST = ipaddress.IPv6Network("2000::/3")
"""All of IPv6 that the IANA has given out for the public internet (RFC 4291, 2.4; IANA's address space registry)."""

EMBEDDED = (
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),  # IPv4-mapped, RFC 4291
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),  # NAT64, RFC 6052
    (ipaddress.IPv6Network("2002::/16"), 80),  # 6to4, RFC 3056
)
"""Networks whose addresses carry an IPv4 address, and how far from the right: the packet ends up there."""

SPECIAL = (ipaddress.ip_network("192.0.0.0/24"), ipaddress.ip_network("3fff::/20"))
"""Set apart for protocols (RFC 6890) and for documentation (RFC 9637); older Pythons do not know all of it."""


class Forbidden(PerfciError):
    """An address that no message of ours may reach."""


def resolved(host: str, port: int) -> list[str]:
    """All addresses of a host, as the system's resolver gives them."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise PerfciError(f"The host {host} has no address: {error}.") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def checked_addresses(host: str, port: int, allowed: Sequence[Network] = (), resolve: Resolve = resolved) -> list[str]:
    """The addresses of a host, if every one of them may be reached; connect to these and ask no resolver again.

    One bad address among good ones refuses them all: a name that answers differently each time is how a check is
    led around (DNS rebinding).
    """
    found = list(resolve(host, port))
    if not found:
        raise PerfciError(f"The host {host} has no address.")
    for text in found:
        if not (is_public(text) or is_within(text, allowed)):
            raise Forbidden(
                f"{host} is {text}, which is no address of the public internet; an operator may name its network in "
                "[notify] allow_networks."
            )
    return found


def is_public(text: str) -> bool:
    """Whether anybody on the internet would reach the same machine under this address."""
    address = _meant(text)
    if isinstance(address, ipaddress.IPv6Address) and address not in UNICAST:
        return False
    if any(address.version == network.version and address in network for network in SPECIAL):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def is_within(text: str, networks: Sequence[Network]) -> bool:
    address = _meant(text)
    return any(address.version == network.version and address in network for network in networks)


def _meant(text: str) -> Address:
    """The address a packet ends up at: what tunnels and translators carry inside, unwrapped to the last."""
    address = ipaddress.ip_address(text.partition("%")[0])
    for network, shift in EMBEDDED:
        if isinstance(address, ipaddress.IPv6Address) and address in network:
            return ipaddress.IPv4Address(int(address) >> shift & 0xFFFFFFFF)
    return address
