"""Verify OIDC tokens of GitHub Actions: every check, in one order.

A token proves which workflow ran, not that its numbers are honest. GitHub's claims:
https://docs.github.com/actions/reference/security/oidc. Its ``sub`` is never read: repositories can
customise it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import jwt

from perfci.auth.refusals import RefusalReason, job_refusal

ALGORITHM: Final = "RS256"
MAX_TOKEN_LENGTH = 16_384
"""Characters a token may have; GitHub's have about 2,000."""
LEEWAY_S = 30
MAX_LIFETIME_S = 20 * 60
MIN_KEY_BITS = 2048
FORBIDDEN_HEADERS = frozenset({"jku", "jwk", "x5u", "x5c", "crit"})
"""Headers with which a token would choose its own verification key; GitHub sends none."""

REQUIRED_KEY_FIELDS = {"kty": "RSA", "use": "sig", "alg": ALGORITHM}
"""Fields that a signing key must have."""
PUBLIC_KEY_FIELDS = ("kty", "n", "e")

KeyLookup = Callable[[str], Mapping[str, Any] | None]
"""Finds the public key of an issuer by key id, as a JWK."""

CLAIM_PATTERNS = {
    "repository_id": re.compile(r"[1-9][0-9]{0,17}"),
    "repository_owner_id": re.compile(r"[1-9][0-9]{0,17}"),
    "run_id": re.compile(r"[1-9][0-9]{0,17}"),
    "run_attempt": re.compile(r"[1-9][0-9]{0,8}"),
    "sha": re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?"),
}


@dataclass(frozen=True, slots=True)
class ExpectedIssuer:
    """The expected issuer and audience of tokens, from the server's configuration."""

    issuer: str
    audience: str


@dataclass(frozen=True, slots=True)
class JobClaims:
    """The claims of a job's token. Its numbers are strings."""

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


REQUIRED_TEXT_CLAIMS = tuple(
    name for name in JobClaims.__dataclass_fields__ if name not in ("expires_s", "environment")
)


def verify_token(token: str, expected: ExpectedIssuer, find_key: KeyLookup, now: datetime) -> JobClaims:
    """Verify a token and return its claims, or raise ``JobRefused``."""
    header = _read_header(token, expected)
    claims = _verify_signature(token, _select_key(header, find_key, expected), expected)
    if claims.get("iss") != expected.issuer:
        raise job_refusal(RefusalReason.ISSUER, expected.issuer)
    if claims.get("aud") != expected.audience:
        raise job_refusal(RefusalReason.AUDIENCE, expected.audience)
    _require_time(claims, now.timestamp())
    return _parse_claims(claims)


def _read_header(token: str, expected: ExpectedIssuer) -> Mapping[str, Any]:
    if len(token) > MAX_TOKEN_LENGTH:
        raise job_refusal(RefusalReason.SIZE)
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.InvalidTokenError, UnicodeEncodeError):
        raise job_refusal(RefusalReason.SHAPE) from None
    if header.get("alg") != ALGORITHM:
        raise job_refusal(RefusalReason.ALGORITHM, expected.issuer)
    if header.keys() & FORBIDDEN_HEADERS:
        raise job_refusal(RefusalReason.HEADER, expected.issuer)
    return header


def _select_key(header: Mapping[str, Any], find_key: KeyLookup, expected: ExpectedIssuer) -> jwt.PyJWK:
    """Select the issuer's public key that the token names; its type and use must fit."""
    public_key = find_key(header["kid"]) if header.get("kid") else None
    if public_key is None or any(
        public_key.get(name, value) != value for name, value in REQUIRED_KEY_FIELDS.items()
    ):
        raise job_refusal(RefusalReason.KEY, expected.issuer)
    try:
        key = jwt.PyJWK(
            {name: public_key[name] for name in PUBLIC_KEY_FIELDS if name in public_key}, ALGORITHM
        )
    except jwt.PyJWTError:
        raise job_refusal(RefusalReason.KEY, expected.issuer) from None
    if key.key.key_size < MIN_KEY_BITS:
        raise job_refusal(RefusalReason.KEY, expected.issuer)
    return key


def _verify_signature(token: str, key: jwt.PyJWK, expected: ExpectedIssuer) -> Mapping[str, Any]:
    try:
        claims = json.loads(jwt.PyJWS().decode(token, key, [ALGORITHM]))
    except jwt.InvalidTokenError:
        raise job_refusal(RefusalReason.SIGNATURE, expected.issuer) from None
    except (ValueError, RecursionError):
        raise job_refusal(RefusalReason.SHAPE) from None
    if not isinstance(claims, dict):
        raise job_refusal(RefusalReason.SHAPE)
    return claims


def _require_time(claims: Mapping[str, Any], now_s: float) -> None:
    """Check the times of a token: all three are required, in whole seconds, and the lifetime is limited."""
    issued, begins, ends = (_read_seconds(claims, name) for name in ("iat", "nbf", "exp"))
    if now_s >= ends + LEEWAY_S:
        raise job_refusal(RefusalReason.EXPIRED)
    if now_s < max(issued, begins) - LEEWAY_S:
        raise job_refusal(RefusalReason.EARLY)
    if ends - issued > MAX_LIFETIME_S:
        raise job_refusal(RefusalReason.LIFETIME)


def _parse_claims(claims: Mapping[str, Any]) -> JobClaims:
    _read_text(claims, "sub")
    texts = {name: _read_text(claims, name) for name in REQUIRED_TEXT_CLAIMS}
    if not all(shape.fullmatch(texts[name]) for name, shape in CLAIM_PATTERNS.items()):
        raise job_refusal(RefusalReason.CLAIMS)
    environment = _read_text(claims, "environment") if "environment" in claims else ""
    return JobClaims(**texts, environment=environment, expires_s=claims["exp"])


def _read_seconds(claims: Mapping[str, Any], name: str) -> int:
    value = claims.get(name)
    if type(value) is not int:
        raise job_refusal(RefusalReason.CLAIMS)
    return value


def _read_text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value.isprintable() or not value:
        raise job_refusal(RefusalReason.CLAIMS)
    return value
