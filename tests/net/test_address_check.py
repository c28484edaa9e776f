"""Requests never reach private addresses."""

from __future__ import annotations

import ipaddress

import pytest

from perfci.net.address_check import ForbiddenAddress, is_public_address, resolve_allowed_addresses

INSIDE = (
    "127.0.0.1",
    "127.8.9.1",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.5.4",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "192.0.0.8",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2002:c0a8:101::1",
    "2001::1",
    "2001:db8::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "100::1",
    "3fff::1",
    "5f00::1",
)
OUTSIDE = (
    "8.8.8.8",
    "140.82.121.3",
    "2606:4700::1111",
    "2a00:1450:4001::1",
    "64:ff9b::808:808",
    "2002:808:808::1",
)


@pytest.mark.parametrize("address", INSIDE)
def test_rejects_private_addresses(address: str) -> None:
    assert not is_public_address(address)


@pytest.mark.parametrize("address", OUTSIDE)
def test_accepts_public_addresses(address: str) -> None:
    assert is_public_address(address)


def test_one_private_address_rejects_the_host() -> None:
    with pytest.raises(ForbiddenAddress, match="which is not a public address"):
        resolve_allowed_addresses("rebound.example", 443, resolver=lambda host, port: ["8.8.8.8", "10.0.0.1"])


def test_accepts_networks_that_the_operator_allows() -> None:
    named = [ipaddress.ip_network("10.1.0.0/16")]

    result = resolve_allowed_addresses("chat.internal", 443, named, resolver=lambda host, port: ["10.1.2.3"])

    assert result == ["10.1.2.3"]


@pytest.mark.parametrize("spelling", ["0x7f000001", "2130706433", "127.1", "0177.0.0.1", "localhost"])
def test_rejects_other_spellings_of_localhost(spelling: str) -> None:
    with pytest.raises(ForbiddenAddress):
        resolve_allowed_addresses(spelling, 443)
