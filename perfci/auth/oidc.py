"""Whether a token proves which job of GitHub Actions it was given to: every check, in one order.

What it proves is which workflow ran, not that its numbers are honest. GitHub's claims:
https://docs.github.com/actions/reference/security/oidc. Its ``sub`` is never read: repositories shape it as they like.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import jwt

from perfci.auth.refusals import Reason, refused

ALGORITHM: Final = "RS256"
MOST_CHARACTERS = 16_384
"""GitHub's tokens have some two thousand."""
LEEWAY_S = 30
LONGEST_LIFE_S = 20 * 60
FEWEST_BITS = 2048
KEYS_ELSEWHERE = frozenset({"jku", "jwk", "x5u", "x5c", "crit"})
"""Headers by which a token would say with what it is to be checked; GitHub sends none of them."""

FOR_THIS = {"kty": "RSA", "use": "sig", "alg": ALGORITHM}
"""What a key that signs such tokens says of itself."""
PUBLIC_HALF = ("kty", "n", "e")

Keys = Callable[[str], Mapping[str, Any] | None]
"""The issuer's public key of an id, as a JWK."""

SHAPES = {
    "repository_id": re.compile(r"[1-9][0-9]{0,17}"),
    "repository_owner_id": re.compile(r"[1-9][0-9]{0,17}"),
    "run_id": re.compile(r"[1-9][0-9]{0,17}"),
    "run_attempt": re.compile(r"[1-9][0-9]{0,8}"),
    "sha": re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?"),
}


@dataclass(frozen=True, slots=True)
class Expected:
    """Who must have signed, and for whom: both are of our own configuration."""

    issuer: str
    audience: str


@dataclass(frozen=True, slots=True)
class Claims:
    """What GitHub says of a job. Its numbers are strings."""

    jti: str
    expires_s: int
    repository: str
    repository_id: str
    repository_owner_id: str
    event_name: str
    ref: str
    sha: str
    run_id: str
    run_attempt: str
    job_workflow_ref: str
    environment: str = ""


TEXTS = tuple(name for name in Claims.__dataclass_fields__ if name not in ("expires_s", "environment"))


def verified(token: str, expected: Expected, key_of: Keys, now: datetime) -> Claims:
    """The claims of a token that the issuer signed for this server and this moment; else ``JobRefused``."""
    header = _header(token, expected)
    claims = _signed(token, _key(header, key_of, expected), expected)
    if claims.get("iss") != expected.issuer:
        raise refused(Reason.ISSUER, expected.issuer)
    if claims.get("aud") != expected.audience:
        raise refused(Reason.AUDIENCE, expected.audience)
    _require_time(claims, now.timestamp())
    return _claims(claims)


def _header(token: str, expected: Expected) -> Mapping[str, Any]:
    if len(token) > MOST_CHARACTERS:
        raise refused(Reason.SIZE)
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.InvalidTokenError, UnicodeEncodeError):
        raise refused(Reason.SHAPE) from None
    if header.get("alg") != ALGORITHM:
        raise refused(Reason.ALGORITHM, expected.issuer)
    if header.keys() & KEYS_ELSEWHERE:
        raise refused(Reason.HEADER, expected.issuer)
    return header


def _key(header: Mapping[str, Any], key_of: Keys, expected: Expected) -> jwt.PyJWK:
    """The key the token names, of those the issuer publishes; one that is not for this is none."""
    found = key_of(header["kid"]) if header.get("kid") else None
    if found is None or any(found.get(name, told) != told for name, told in FOR_THIS.items()):
        raise refused(Reason.KEY, expected.issuer)
    try:
        key = jwt.PyJWK({name: found[name] for name in PUBLIC_HALF if name in found}, ALGORITHM)
    except jwt.PyJWTError:
        raise refused(Reason.KEY, expected.issuer) from None
    if key.key.key_size < FEWEST_BITS:
        raise refused(Reason.KEY, expected.issuer)
    return key


def _signed(token: str, key: jwt.PyJWK, expected: Expected) -> Mapping[str, Any]:
    try:
        claims = json.loads(jwt.PyJWS().decode(token, key, [ALGORITHM]))
    except jwt.InvalidTokenError:
        raise refused(Reason.SIGNATURE, expected.issuer) from None
    except (ValueError, RecursionError):
        raise refused(Reason.SHAPE) from None
    if not isinstance(claims, dict):
        raise refused(Reason.SHAPE)
    return claims


def _require_time(claims: Mapping[str, Any], now_s: float) -> None:
    """Times are whole seconds, and all three must be there; a token that lives long was not made for one job."""
    issued, begins, ends = (_seconds(claims, name) for name in ("iat", "nbf", "exp"))
    if now_s >= ends + LEEWAY_S:
        raise refused(Reason.EXPIRED)
    if now_s < max(issued, begins) - LEEWAY_S:
        raise refused(Reason.EARLY)
    if ends - issued > LONGEST_LIFE_S:
        raise refused(Reason.LIFETIME)


def _claims(claims: Mapping[str, Any]) -> Claims:
    _text(claims, "sub")
    texts = {name: _text(claims, name) for name in TEXTS}
    if not all(shape.fullmatch(texts[name]) for name, shape in SHAPES.items()):
        raise refused(Reason.CLAIMS)
    environment = _text(claims, "environment") if "environment" in claims else ""
    return Claims(**texts, environment=environment, expires_s=claims["exp"])


def _seconds(claims: Mapping[str, Any], name: str) -> int:
    found = claims.get(name)
    if type(found) is not int:
        raise refused(Reason.CLAIMS)
    return found


def _text(claims: Mapping[str, Any], name: str) -> str:
    found = claims.get(name)
    if not isinstance(found, str) or not found.isprintable() or not found:
        raise refused(Reason.CLAIMS)
    return found
