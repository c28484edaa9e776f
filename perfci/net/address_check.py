"""Check that a destination is a public address or in a network that the operator allows."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence

from perfci.model import PerfciError

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolver = Callable[[str, int], Sequence[str]]

GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
"""Public IPv6 (RFC 4291, 2.4, and the address space registry of the IANA)."""

IPV4_EMBEDDING_NETWORKS = (
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),  # IPv4-mapped, RFC 4291
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),  # NAT64, RFC 6052
    (ipaddress.IPv6Network("2002::/16"), 80),  # 6to4, RFC 3056
)
"""Networks whose addresses embed the IPv4 address a packet ends up at, and its shift in bits from the right.
"""

RESERVED_NETWORKS = (ipaddress.ip_network("192.0.0.0/24"), ipaddress.ip_network("3fff::/20"))
"""Reserved for protocols (RFC 6890) and documentation (RFC 9637); older Pythons count some as public."""


class ForbiddenAddress(PerfciError):
    """A destination that is neither public nor allowed."""


def resolve_host(host: str, port: int) -> list[str]:
    """Resolve all addresses of a host with the system's resolver."""
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise PerfciError(f"The host {host} has no address: {error}.") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in entries))


def resolve_allowed_addresses(
    host: str, port: int, allowed_networks: Sequence[IpNetwork] = (), resolver: Resolver = resolve_host
) -> list[str]:
    """Resolve a host, and raise unless all of its addresses are allowed; the caller connects to these.

    Resolving again after the check would allow DNS rebinding, where a name resolves differently each time.
    For the same reason one forbidden address rejects all.
    """
    addresses = list(resolver(host, port))
    if not addresses:
        raise PerfciError(f"The host {host} has no address.")
    for text in addresses:
        if not (is_public_address(text) or is_in_networks(text, allowed_networks)):
            raise ForbiddenAddress(
                f"{host} is {text}, which is not a public address; an operator may name its network in "
                "[notify] allow_networks."
            )
    return addresses


def is_public_address(text: str) -> bool:
    """Whether an address is globally reachable."""
    address = _effective_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address not in GLOBAL_UNICAST:
        return False
    if any(address.version == network.version and address in network for network in RESERVED_NETWORKS):
        return False
    # To Python multicast is global.
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def is_in_networks(text: str, networks: Sequence[IpNetwork]) -> bool:
    """Whether an address lies in one of the networks."""
    address = _effective_address(text)
    return any(address.version == network.version and address in network for network in networks)


def _effective_address(text: str) -> IpAddress:
    """The address a packet ends up at: an IPv4 address that is embedded in IPv6, or the address itself."""
    # Without the zone of a link-local address, as in fe80::1%eth0.
    address = ipaddress.ip_address(text.partition("%")[0])
    for network, shift in IPV4_EMBEDDING_NETWORKS:
        if isinstance(address, ipaddress.IPv6Address) and address in network:
            return ipaddress.IPv4Address(int(address) >> shift & 0xFFFFFFFF)
    return address
