"""What GitHub signs for its jobs, signed by keys of the tests."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import RSAAlgorithm

from tests.support.builders import NOON, a_sha

ISSUER, AUDIENCE = "https://token.actions.githubusercontent.com", "https://perf.example.com"
NOW = NOON + timedelta(days=30)
KID = "key-1"
WORKFLOW = ".github/workflows/perf.yml"
REPOSITORY_ID, OWNER_ID = 1296269, 583231
SHA = a_sha(1)


def a_key(name: str = KID, bits: int = 2048) -> rsa.RSAPrivateKey:
    """The private key of this name, the same for all tests of a process."""
    return _generated(name, bits)


@functools.cache
def _generated(name: str, bits: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


@functools.cache
def a_curve() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def published(kid: str = KID, bits: int = 2048, **changes: Any) -> dict[str, Any]:
    """The public half of a key as an issuer publishes it."""
    public = RSAAlgorithm.to_jwk(a_key(kid, bits).public_key(), as_dict=True)
    text = {
        "kty": "RSA",
        "alg": "RS256",
        "use": "sig",
        "kid": kid,
        "n": public["n"],
        "e": public["e"],
    } | changes
    return {name: value for name, value in text.items() if value is not None}


def a_job(at: datetime = NOW, **changes: Any) -> dict[str, Any]:
    """What GitHub says of a push to main; a claim that is changed to None is left out."""
    second = int(at.timestamp())
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "repo:acme/model:ref:refs/heads/main",
        "jti": f"job-{second}",
        "iat": second - 5,
        "nbf": second - 605,
        "exp": second + 295,
        "repository": "acme/model",
        "repository_id": str(REPOSITORY_ID),
        "repository_owner": "acme",
        "repository_owner_id": str(OWNER_ID),
        "event_name": "push",
        "ref": "refs/heads/main",
        "sha": SHA,
        "run_id": "4711",
        "run_attempt": "1",
        "job_workflow_ref": f"acme/model/{WORKFLOW}@refs/heads/main",
    } | changes
    return {name: value for name, value in claims.items() if value is not None}


def of_pull_request(number: int = 12, **changes: Any) -> dict[str, Any]:
    ref = f"refs/pull/{number}/merge"
    fields = {"event_name": "pull_request", "ref": ref, "job_workflow_ref": f"acme/model/{WORKFLOW}@{ref}"}
    return a_job(**(fields | changes))


def signed(
    claims: Mapping[str, Any], key: Any = None, *, kid: Any = KID, algorithm: str = "RS256", **headers: Any
) -> str:
    """A token; without a key that of the id signs it."""
    text = ({} if kid is None else {"kid": kid}) | headers
    return jwt.PyJWS().encode(
        json.dumps(claims).encode(), a_key() if key is None else key, algorithm, headers=text
    )


def jwks(*keys: Mapping[str, Any]) -> dict[str, Collection[Mapping[str, Any]]]:
    return {"keys": keys or [published()]}
