"""Refusals of GitHub jobs: a reason for the log, and a public message that reveals no project."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

from perfci.auth.permissions import AccessDenied


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


def job_refusal(reason: RefusalReason, expected: str = "") -> JobRefused:
    """Build the refusal for a reason; ``expected`` is the public configuration that its message names."""
    if reason not in REFUSAL_MESSAGES:
        return JobRefused(reason, 403, NOT_BOUND)
    return JobRefused(reason, 401, REFUSAL_MESSAGES[reason].format(expected))
