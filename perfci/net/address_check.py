"""Which addresses a message of ours may be sent to: the public internet, and the networks an operator named."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence

from perfci.model import PerfciError

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolver = Callable[[str, int], Sequence[str]]

GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All of IPv6 that the IANA has given out for the public internet (RFC 4291, 2.4; IANA's address space
registry).
"""

IPV4_EMBEDDING_NETWORKS = (
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),  # IPv4-mapped, RFC 4291
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),  # NAT64, RFC 6052
    (ipaddress.IPv6Network("2002::/16"), 80),  # 6to4, RFC 3056
)
"""Networks whose addresses carry an IPv4 address, and how far from the right: the packet ends up there."""

RESERVED_NETWORKS = (ipaddress.ip_network("192.0.0.0/24"), ipaddress.ip_network("3fff::/20"))
"""Set apart for protocols (RFC 6890) and for documentation (RFC 9637); older Pythons do not know all of it.
"""


class ForbiddenAddress(PerfciError):
    """An address that no message of ours may reach."""


def resolve_host(host: str, port: int) -> list[str]:
    """All addresses of a host, as the system's resolver gives them."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise PerfciError(f"The host {host} has no address: {error}.") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def resolve_checked(
    host: str, port: int, allowed_networks: Sequence[IpNetwork] = (), resolver: Resolver = resolve_host
) -> list[str]:
    """The addresses of a host, if every one of them may be reached; connect to these and ask no resolver
    again.

    One bad address among good ones refuses them all: a name that answers differently each time is how a
    check is led around (DNS rebinding).
    """
    found = list(resolver(host, port))
    if not found:
        raise PerfciError(f"The host {host} has no address.")
    for text in found:
        if not (is_public(text) or is_within(text, allowed_networks)):
            raise ForbiddenAddress(
                f"{host} is {text}, which is no address of the public internet; an operator may name its "
                "network in "
                "[notify] allow_networks."
            )
    return found


def is_public(text: str) -> bool:
    """Whether anybody on the internet would reach the same machine under this address."""
    address = _effective_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address not in GLOBAL_UNICAST:
        return False
    if any(address.version == network.version and address in network for network in RESERVED_NETWORKS):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def is_within(text: str, networks: Sequence[IpNetwork]) -> bool:
    address = _effective_address(text)
    return any(address.version == network.version and address in network for network in networks)


def _effective_address(text: str) -> IpAddress:
    """The address a packet ends up at: what tunnels and translators carry inside, unwrapped to the last."""
    address = ipaddress.ip_address(text.partition("%")[0])
    for network, shift in IPV4_EMBEDDING_NETWORKS:
        if isinstance(address, ipaddress.IPv6Address) and address in network:
            return ipaddress.IPv4Address(int(address) >> shift & 0xFFFFFFFF)
    return address
