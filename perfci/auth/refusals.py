"""Why a job of GitHub is not let in: a word for us, and a sentence that tells a stranger nothing of any project."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

from perfci.auth.permissions import Denied


class Reason(StrEnum):
    """What the log and the audit log keep."""

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


NO_TOKEN = "This is no token of a GitHub job: send what its ACTIONS_ID_TOKEN_REQUEST_URL answers as the value."
NOT_SIGNED = "This token was not signed by {}, whose jobs this server knows."
OTHER_SERVER = "This token was made for another server: ask GitHub for one with the audience {}."
NOT_NOW = "This token is not valid at this moment: ask GitHub for a new one and send it at once."
LACKING = "This token lacks what GitHub says of a job: is its issuer a newer or an older GitHub than expected?"
NOT_BOUND: Final = (
    "No project of this name takes uploads from this job: an admin binds one to a repository, its workflow and "
    "environment with `perfci project bind`, the events are push, schedule, workflow_dispatch and pull_request, and a "
    "token counts once. The audit log has the reason."
)
"""The same for a project that does not exist, is not bound, or is bound to another job."""

SENTENCES: Mapping[Reason, str] = MappingProxyType(
    {
        Reason.SIZE: NO_TOKEN,
        Reason.SHAPE: NO_TOKEN,
        Reason.ALGORITHM: NOT_SIGNED,
        Reason.HEADER: NOT_SIGNED,
        Reason.KEY: NOT_SIGNED,
        Reason.SIGNATURE: NOT_SIGNED,
        Reason.ISSUER: NOT_SIGNED,
        Reason.AUDIENCE: OTHER_SERVER,
        Reason.CLAIMS: LACKING,
        Reason.EXPIRED: NOT_NOW,
        Reason.EARLY: NOT_NOW,
        Reason.LIFETIME: NOT_NOW,
    }
)
"""What is wrong with the token alone is told; what is wrong with it for a project is never told apart."""


class JobRefused(Denied):
    """``reason`` is for us; the sentence is for whoever sent the token."""

    def __init__(self, reason: Reason, status: Literal[401, 403], sentence: str) -> None:
        super().__init__(status, sentence)
        self.reason = reason


def refused(reason: Reason, expected: str = "") -> JobRefused:
    """The refusal for a reason; ``expected`` is what of our public configuration its sentence names."""
    if reason not in SENTENCES:
        return JobRefused(reason, 403, NOT_BOUND)
    return JobRefused(reason, 401, SENTENCES[reason].format(expected))
