"""Admit jobs of GitHub Actions: verify their OIDC token, every check in one order, then match its claims with
the repository that a project is bound to.

A token proves which workflow ran, not that its numbers are honest. GitHub's claims:
https://docs.github.com/actions/reference/security/oidc. Its ``sub`` is never read: repositories can
customise it. A refusal has a reason for the log, and a public message that reveals no project.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol

import jwt

from perfci.auth.job_grants import WORKFLOW_DISPATCH, JobGrant
from perfci.auth.permissions import AccessDenied

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

BASELINE_EVENTS: Final = frozenset({"push", "schedule", WORKFLOW_DISPATCH})
PULL_REQUEST: Final = "pull_request"
ALLOWED_EVENTS: Final = BASELINE_EVENTS | {PULL_REQUEST}
"""Without ``pull_request_target``: it runs code of a stranger with the rights of the base repository."""

MERGE_REF = re.compile(r"refs/pull/([1-9][0-9]{0,8})/merge")
COMMIT_SHA = re.compile(r"[0-9a-f]{40}")


class RefusalReason(StrEnum):
    """The reason of a refusal, for the log and the audit log."""

    SIZE = "size"
    SHAPE = "shape"
    ALGORITHM = "algorithm"
    HEADER = "header"
    KEY = "key"
    SIGNATURE = "signature"
    ISSUER = "issuer"
    AUDIENCE = "audience"
    CLAIMS = "claims"
    EXPIRED = "expired"
    EARLY = "early"
    LIFETIME = "lifetime"
    UNBOUND = "unbound"
    REPOSITORY = "repository"
    OWNER = "owner"
    EVENT = "event"
    REF = "ref"
    WORKFLOW = "workflow"
    ENVIRONMENT = "environment"
    REPLAY = "replay"


NO_TOKEN = (
    "This is no token of a GitHub job: send what its ACTIONS_ID_TOKEN_REQUEST_URL answers as the value."
)
NOT_SIGNED = "This token was not signed by {}, whose jobs this server knows."
OTHER_SERVER = "This token was made for another server: ask GitHub for one with the audience {}."
NOT_NOW = "This token is not valid at this moment: ask GitHub for a new one and send it at once."
MISSING_CLAIMS = (
    "This token lacks what GitHub says of a job: is its issuer a newer or an older GitHub than expected?"
)
NOT_BOUND: Final = (
    "No project of this name takes uploads from this job: an admin binds one to a repository, "
    "its workflow and environment with `perfci project bind`, the events are push, schedule, "
    "workflow_dispatch and pull_request, and a token counts once. The audit log has the reason."
)
"""One message for a project that does not exist, is not bound, or is bound to another job."""

REFUSAL_MESSAGES: Mapping[RefusalReason, str] = MappingProxyType(
    {
        RefusalReason.SIZE: NO_TOKEN,
        RefusalReason.SHAPE: NO_TOKEN,
        RefusalReason.ALGORITHM: NOT_SIGNED,
        RefusalReason.HEADER: NOT_SIGNED,
        RefusalReason.KEY: NOT_SIGNED,
        RefusalReason.SIGNATURE: NOT_SIGNED,
        RefusalReason.ISSUER: NOT_SIGNED,
        RefusalReason.AUDIENCE: OTHER_SERVER,
        RefusalReason.CLAIMS: MISSING_CLAIMS,
        RefusalReason.EXPIRED: NOT_NOW,
        RefusalReason.EARLY: NOT_NOW,
        RefusalReason.LIFETIME: NOT_NOW,
    }
)
"""Faults of the token itself have messages of their own; faults for a project all share one."""


class JobRefused(AccessDenied):
    """A refused job; ``reason`` is for the log, the message for the caller."""

    def __init__(self, reason: RefusalReason, status: Literal[401, 403], sentence: str) -> None:
        super().__init__(status, sentence)
        self.reason = reason


def build_job_refusal(reason: RefusalReason, expected: str = "") -> JobRefused:
    """Build the refusal for a reason; ``expected`` is the public configuration that its message names."""
    if reason not in REFUSAL_MESSAGES:
        return JobRefused(reason, 403, NOT_BOUND)
    return JobRefused(reason, 401, REFUSAL_MESSAGES[reason].format(expected))


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


def verify_oidc_token(token: str, expected: ExpectedIssuer, find_key: KeyLookup, now: datetime) -> JobClaims:
    """Verify a token and return its claims, or raise ``JobRefused``."""
    header = _read_header(token, expected)
    claims = _verify_signature(token, _select_key(header, find_key, expected), expected)
    if claims.get("iss") != expected.issuer:
        raise build_job_refusal(RefusalReason.ISSUER, expected.issuer)
    if claims.get("aud") != expected.audience:
        raise build_job_refusal(RefusalReason.AUDIENCE, expected.audience)
    _require_time(claims, now.timestamp())
    return _parse_claims(claims)


def _read_header(token: str, expected: ExpectedIssuer) -> Mapping[str, Any]:
    if len(token) > MAX_TOKEN_LENGTH:
        raise build_job_refusal(RefusalReason.SIZE)
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.InvalidTokenError, UnicodeEncodeError):
        raise build_job_refusal(RefusalReason.SHAPE) from None
    if header.get("alg") != ALGORITHM:
        raise build_job_refusal(RefusalReason.ALGORITHM, expected.issuer)
    if header.keys() & FORBIDDEN_HEADERS:
        raise build_job_refusal(RefusalReason.HEADER, expected.issuer)
    return header


def _select_key(header: Mapping[str, Any], find_key: KeyLookup, expected: ExpectedIssuer) -> jwt.PyJWK:
    """Select the issuer's public key that the token names; its type and use must fit."""
    public_key = find_key(header["kid"]) if header.get("kid") else None
    if public_key is None or any(
        public_key.get(name, value) != value for name, value in REQUIRED_KEY_FIELDS.items()
    ):
        raise build_job_refusal(RefusalReason.KEY, expected.issuer)
    try:
        key = jwt.PyJWK(
            {name: public_key[name] for name in PUBLIC_KEY_FIELDS if name in public_key}, ALGORITHM
        )
    except jwt.PyJWTError:
        raise build_job_refusal(RefusalReason.KEY, expected.issuer) from None
    if key.key.key_size < MIN_KEY_BITS:
        raise build_job_refusal(RefusalReason.KEY, expected.issuer)
    return key


def _verify_signature(token: str, key: jwt.PyJWK, expected: ExpectedIssuer) -> Mapping[str, Any]:
    try:
        claims = json.loads(jwt.PyJWS().decode(token, key, [ALGORITHM]))
    except jwt.InvalidTokenError:
        raise build_job_refusal(RefusalReason.SIGNATURE, expected.issuer) from None
    except (ValueError, RecursionError):
        raise build_job_refusal(RefusalReason.SHAPE) from None
    if not isinstance(claims, dict):
        raise build_job_refusal(RefusalReason.SHAPE)
    return claims


def _require_time(claims: Mapping[str, Any], now_s: float) -> None:
    """Check the times of a token: all three are required, in whole seconds, and the lifetime is limited."""
    times_s: list[Any] = [claims.get(name) for name in ("iat", "nbf", "exp")]
    # By type: isinstance would take true for 1.
    if any(type(time_s) is not int for time_s in times_s):
        raise build_job_refusal(RefusalReason.CLAIMS)
    issued, begins, ends = times_s
    if now_s >= ends + LEEWAY_S:
        raise build_job_refusal(RefusalReason.EXPIRED)
    if now_s < max(issued, begins) - LEEWAY_S:
        raise build_job_refusal(RefusalReason.EARLY)
    if ends - issued > MAX_LIFETIME_S:
        raise build_job_refusal(RefusalReason.LIFETIME)


def _parse_claims(claims: Mapping[str, Any]) -> JobClaims:
    _read_text(claims, "sub")
    texts = {name: _read_text(claims, name) for name in REQUIRED_TEXT_CLAIMS}
    if not all(shape.fullmatch(texts[name]) for name, shape in CLAIM_PATTERNS.items()):
        raise build_job_refusal(RefusalReason.CLAIMS)
    environment = _read_text(claims, "environment") if "environment" in claims else ""
    return JobClaims(**texts, environment=environment, expires_s=claims["exp"])


def _read_text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value.isprintable() or not value:
        raise build_job_refusal(RefusalReason.CLAIMS)
    return value


class RepositoryBinding(Protocol):
    """The binding of a project to a repository; ``workflow`` starts with .github for a file of its own."""

    @property
    def repository_id(self) -> int:
        """GitHub's number of the repository."""

    @property
    def owner_id(self) -> int:
        """GitHub's number of the repository's owner."""

    @property
    def workflow(self) -> str:
        """The workflow file that may upload."""

    @property
    def environment(self) -> str:
        """The deployment environment that may upload; empty for any."""

    @property
    def history_refs(self) -> Collection[str]:
        """The refs whose jobs may write a history."""


def authorize_job(claims: JobClaims, binding: RepositoryBinding | None) -> JobGrant:
    """Return the grant of a job in a bound project, or raise ``JobRefused``.

    GitHub reuses names but never numbers: a renamed repository still matches, another one under its old
    name does not, and one that was transferred must be bound again.
    """
    if binding is None:
        raise build_job_refusal(RefusalReason.UNBOUND)
    if claims.repository_id != str(binding.repository_id):
        raise build_job_refusal(RefusalReason.REPOSITORY)
    if claims.repository_owner_id != str(binding.owner_id):
        raise build_job_refusal(RefusalReason.OWNER)
    if claims.event_name not in ALLOWED_EVENTS:
        raise build_job_refusal(RefusalReason.EVENT)
    number = _pull_request_number(claims)
    if not _is_workflow(claims, binding.workflow):
        raise build_job_refusal(RefusalReason.WORKFLOW)
    if binding.environment and claims.environment != binding.environment:
        raise build_job_refusal(RefusalReason.ENVIRONMENT)
    baseline = claims.event_name in BASELINE_EVENTS and claims.ref in binding.history_refs
    return JobGrant(claims.run_id, int(claims.run_attempt), claims.sha, number, baseline, claims.event_name)


def _pull_request_number(claims: JobClaims) -> int | None:
    if claims.event_name != PULL_REQUEST:
        return None
    match = MERGE_REF.fullmatch(claims.ref)
    if match is None:
        raise build_job_refusal(RefusalReason.REF)
    return int(match[1])


def _is_workflow(claims: JobClaims, workflow: str) -> bool:
    """Whether the job's workflow file is the bound one: the part before the first @, followed by a ref.

    Without the check of the ref, ``perf.yml@other.yml`` would pass for ``perf.yml``.
    """
    file, _, ref = claims.job_workflow_ref.partition("@")
    whole = f"{claims.repository}/{workflow}" if workflow.startswith(".github/") else workflow
    return file == whole and (ref.startswith("refs/") or COMMIT_SHA.fullmatch(ref) is not None)
