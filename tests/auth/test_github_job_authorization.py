"""Tokens that are no proof of the job a project is bound to: each refused for its own reason, in words that
tell a stranger nothing.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from perfci.auth.github_job_authorization import (
    MISSING_CLAIMS,
    NO_TOKEN,
    NOT_BOUND,
    NOT_NOW,
    ExpectedIssuer,
    JobRefused,
    RefusalReason,
    authorize_job,
    verify_oidc_token,
)
from perfci.auth.job_grants import JobGrant
from tests.support.signed_job_tokens import (
    AUDIENCE,
    ISSUER,
    KID,
    NOW,
    OWNER_ID,
    REPOSITORY_ID,
    SHA,
    WORKFLOW,
    a_curve,
    a_job,
    a_key,
    of_pull_request,
    published,
    signed,
)


@dataclass(frozen=True)
class Repository:
    """What a project is bound to."""

    repository_id: int = REPOSITORY_ID
    owner_id: int = OWNER_ID
    workflow: str = WORKFLOW
    environment: str = ""
    history_refs: tuple[str, ...] = ("refs/heads/main",)


MODEL = Repository()
SECOND = int(NOW.timestamp())
NOT_SIGNED = f"This token was not signed by {ISSUER}, whose jobs this server knows."
OTHER_SERVER = f"This token was made for another server: ask GitHub for one with the audience {AUDIENCE}."

KEYS = {
    KID: published(),
    "ours": published("ours"),
    "weak": published("weak", 1024),
    "curve": {"kty": "EC", "crv": "P-256", "kid": "curve", "x": "AA", "y": "AA"},
    "secret": {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"},
    "sealing": published("sealing", use="enc"),
    "other use": published("other use", alg="PS256"),
    "broken": published("broken", n="!"),
    "half": published("half", e=None),
}


def judged(token: str, bound: Repository | None = MODEL) -> JobGrant:
    return authorize_job(verify_oidc_token(token, ExpectedIssuer(ISSUER, AUDIENCE), KEYS.get, NOW), bound)


def by_hand(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def signed_by_public_key() -> str:
    """The oldest trick: the public key, which everybody has, taken for a shared secret."""
    secret = a_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    unsigned = by_hand({"alg": "HS256", "typ": "JWT", "kid": KID}, a_job()).rpartition(".")[0]
    mark = hmac.new(secret, unsigned.encode(), hashlib.sha256).digest()
    return f"{unsigned}.{base64.urlsafe_b64encode(mark).rstrip(b'=').decode()}"


def changed_after_signing() -> str:
    head, _, mark = signed(a_job()).split(".")
    body = base64.urlsafe_b64encode(json.dumps(a_job(repository_id="1")).encode()).rstrip(b"=").decode()
    return f"{head}.{body}.{mark}"


ELSEWHERE = "https://evil.example/keys"
OTHER_PATH = f"rival/own/.github/workflows/x.yml@acme/model/{WORKFLOW}@refs/heads/main"

TOKENS: dict[str, tuple[Callable[[], str], RefusalReason, str]] = {
    "nothing": (lambda: "", RefusalReason.SHAPE, NO_TOKEN),
    "no JWT": (lambda: "pfciu_" + "a" * 44, RefusalReason.SHAPE, NO_TOKEN),
    "two parts": (lambda: signed(a_job()).rpartition(".")[0], RefusalReason.SHAPE, NO_TOKEN),
    "five parts": (lambda: "a.b.c.d.e", RefusalReason.SHAPE, NO_TOKEN),
    "huge": (lambda: signed(a_job(more="x" * 20_000)), RefusalReason.SIZE, NO_TOKEN),
    "no object": (lambda: signed([1]), RefusalReason.SHAPE, NO_TOKEN),  # type: ignore[arg-type]
    "letters beyond ASCII": (lambda: "ä.ö.ü", RefusalReason.SHAPE, NO_TOKEN),
    "alg none": (lambda: by_hand({"alg": "none", "kid": KID}, a_job()), RefusalReason.ALGORITHM, NOT_SIGNED),
    "alg missing": (lambda: by_hand({"kid": KID}, a_job()), RefusalReason.ALGORITHM, NOT_SIGNED),
    "alg HS256 by the public key": (signed_by_public_key, RefusalReason.ALGORITHM, NOT_SIGNED),
    "alg ES256": (lambda: signed(a_job(), a_curve(), algorithm="ES256"), RefusalReason.ALGORITHM, NOT_SIGNED),
    "alg PS256": (lambda: signed(a_job(), algorithm="PS256"), RefusalReason.ALGORITHM, NOT_SIGNED),
    "alg RS512": (lambda: signed(a_job(), algorithm="RS512"), RefusalReason.ALGORITHM, NOT_SIGNED),
    "alg in small letters": (
        lambda: by_hand({"alg": "rs256", "kid": KID}, a_job()),
        RefusalReason.ALGORITHM,
        NOT_SIGNED,
    ),
    "kid missing": (lambda: signed(a_job(), kid=None), RefusalReason.KEY, NOT_SIGNED),
    "kid unknown": (lambda: signed(a_job(), kid="key-2"), RefusalReason.KEY, NOT_SIGNED),
    "kid a path": (lambda: signed(a_job(), kid="../../../dev/null"), RefusalReason.KEY, NOT_SIGNED),
    "kid a question": (lambda: signed(a_job(), kid="' OR 1=1 --"), RefusalReason.KEY, NOT_SIGNED),
    "kid no text": (lambda: by_hand({"alg": "RS256", "kid": 1}, a_job()), RefusalReason.SHAPE, NO_TOKEN),
    "kid of a curve": (lambda: signed(a_job(), kid="curve"), RefusalReason.KEY, NOT_SIGNED),
    "kid of a shared secret": (lambda: signed(a_job(), kid="secret"), RefusalReason.KEY, NOT_SIGNED),
    "kid of a key that seals": (
        lambda: signed(a_job(), a_key("sealing"), kid="sealing"),
        RefusalReason.KEY,
        NOT_SIGNED,
    ),
    "kid of another algorithm": (
        lambda: signed(a_job(), a_key("other use"), kid="other use"),
        RefusalReason.KEY,
        NOT_SIGNED,
    ),
    "kid of a weak key": (lambda: signed(a_job(), kid="weak"), RefusalReason.KEY, NOT_SIGNED),
    "kid of a broken key": (lambda: signed(a_job(), kid="broken"), RefusalReason.KEY, NOT_SIGNED),
    "kid of half a key": (lambda: signed(a_job(), kid="half"), RefusalReason.KEY, NOT_SIGNED),
    "jku": (lambda: signed(a_job(), a_key("evil"), jku=ELSEWHERE), RefusalReason.HEADER, NOT_SIGNED),
    "x5u": (lambda: signed(a_job(), a_key("evil"), x5u=ELSEWHERE), RefusalReason.HEADER, NOT_SIGNED),
    "x5c": (lambda: signed(a_job(), a_key("evil"), x5c=["AA=="]), RefusalReason.HEADER, NOT_SIGNED),
    "jwk": (lambda: signed(a_job(), a_key("evil"), jwk=published("evil")), RefusalReason.HEADER, NOT_SIGNED),
    "jku beside a good signature": (lambda: signed(a_job(), jku=ELSEWHERE), RefusalReason.HEADER, NOT_SIGNED),
    "signed by a stranger": (lambda: signed(a_job(), a_key("evil")), RefusalReason.SIGNATURE, NOT_SIGNED),
    "signed by another key of the issuer": (
        lambda: signed(a_job(), a_key("ours")),
        RefusalReason.SIGNATURE,
        NOT_SIGNED,
    ),
    "not signed": (
        lambda: by_hand({"alg": "RS256", "kid": KID}, a_job()),
        RefusalReason.SIGNATURE,
        NOT_SIGNED,
    ),
    "changed after signing": (changed_after_signing, RefusalReason.SIGNATURE, NOT_SIGNED),
}

CLAIMS: dict[str, tuple[dict[str, Any], RefusalReason, str]] = {
    "issuer with a slash": ({"iss": f"{ISSUER}/"}, RefusalReason.ISSUER, NOT_SIGNED),
    "issuer by http": ({"iss": ISSUER.replace("https", "http")}, RefusalReason.ISSUER, NOT_SIGNED),
    "issuer in capitals": ({"iss": ISSUER.upper()}, RefusalReason.ISSUER, NOT_SIGNED),
    "issuer of an enterprise": ({"iss": f"{ISSUER}/rival"}, RefusalReason.ISSUER, NOT_SIGNED),
    "issuer with a tail": ({"iss": f"{ISSUER}.evil.example"}, RefusalReason.ISSUER, NOT_SIGNED),
    "issuer as a list": ({"iss": [ISSUER]}, RefusalReason.ISSUER, NOT_SIGNED),
    "issuer missing": ({"iss": None}, RefusalReason.ISSUER, NOT_SIGNED),
    "audience as GitHub sets it": ({"aud": "https://github.com/acme"}, RefusalReason.AUDIENCE, OTHER_SERVER),
    "audience of another server": ({"aud": "https://perf.example.org"}, RefusalReason.AUDIENCE, OTHER_SERVER),
    "audience with a slash": ({"aud": f"{AUDIENCE}/"}, RefusalReason.AUDIENCE, OTHER_SERVER),
    "audience of two": (
        {"aud": [AUDIENCE, "https://perf.example.org"]},
        RefusalReason.AUDIENCE,
        OTHER_SERVER,
    ),
    "audience as a list": ({"aud": [AUDIENCE]}, RefusalReason.AUDIENCE, OTHER_SERVER),
    "audience missing": ({"aud": None}, RefusalReason.AUDIENCE, OTHER_SERVER),
    "expired": ({"iat": SECOND - 330, "exp": SECOND - 30}, RefusalReason.EXPIRED, NOT_NOW),
    "not yet valid": ({"nbf": SECOND + 31}, RefusalReason.EARLY, NOT_NOW),
    "not yet issued": ({"iat": SECOND + 31}, RefusalReason.EARLY, NOT_NOW),
    "valid for too long": ({"iat": SECOND - 5, "exp": SECOND - 5 + 1201}, RefusalReason.LIFETIME, NOT_NOW),
    "valid for ever": ({"exp": 10**400}, RefusalReason.LIFETIME, NOT_NOW),
    "exp missing": ({"exp": None}, RefusalReason.CLAIMS, MISSING_CLAIMS),
    "iat missing": ({"iat": None}, RefusalReason.CLAIMS, MISSING_CLAIMS),
    "nbf missing": ({"nbf": None}, RefusalReason.CLAIMS, MISSING_CLAIMS),
    "exp as a text": ({"exp": str(SECOND + 200)}, RefusalReason.CLAIMS, MISSING_CLAIMS),
    "exp true": ({"exp": True}, RefusalReason.CLAIMS, MISSING_CLAIMS),
    "sub missing": ({"sub": None}, RefusalReason.CLAIMS, MISSING_CLAIMS),
    "jti missing": ({"jti": None}, RefusalReason.CLAIMS, MISSING_CLAIMS),
    "jti empty": ({"jti": ""}, RefusalReason.CLAIMS, MISSING_CLAIMS),
    "repository missing": ({"repository": None}, RefusalReason.CLAIMS, MISSING_CLAIMS),
    "repository_id missing": ({"repository_id": None}, RefusalReason.CLAIMS, MISSING_CLAIMS),
    "repository_id as a number": ({"repository_id": REPOSITORY_ID}, RefusalReason.CLAIMS, MISSING_CLAIMS),
    "repository_id with a zero before it": (
        {"repository_id": f"0{REPOSITORY_ID}"},
        RefusalReason.CLAIMS,
        MISSING_CLAIMS,
    ),
    "repository_owner_id missing": ({"repository_owner_id": None}, RefusalReason.CLAIMS, MISSING_CLAIMS),
    "repository_owner_id as a number": (
        {"repository_owner_id": OWNER_ID},
        RefusalReason.CLAIMS,
        MISSING_CLAIMS,
    ),
    "event_name missing": ({"event_name": None}, RefusalReason.CLAIMS, MISSING_CLAIMS),
    "ref missing": ({"ref": None}, RefusalReason.CLAIMS, MISSING_CLAIMS),
    "sha missing": ({"sha": None}, RefusalReason.CLAIMS, MISSING_CLAIMS),
    "sha no sha": ({"sha": "main"}, RefusalReason.CLAIMS, MISSING_CLAIMS),
    "run_id missing": ({"run_id": None}, RefusalReason.CLAIMS, MISSING_CLAIMS),
    "run_attempt missing": ({"run_attempt": None}, RefusalReason.CLAIMS, MISSING_CLAIMS),
    "job_workflow_ref missing": ({"job_workflow_ref": None}, RefusalReason.CLAIMS, MISSING_CLAIMS),
    "a line feed in a claim": (
        {"repository": "acme/model\nforged line"},
        RefusalReason.CLAIMS,
        MISSING_CLAIMS,
    ),
    "another repository": (
        {"repository": "rival/own", "repository_id": "7"},
        RefusalReason.REPOSITORY,
        NOT_BOUND,
    ),
    "a repository that took the name": (
        {"repository_id": "99", "repository_owner_id": "98"},
        RefusalReason.REPOSITORY,
        NOT_BOUND,
    ),
    "another owner since": ({"repository_owner_id": "98"}, RefusalReason.OWNER, NOT_BOUND),
    "event pull_request_target": ({"event_name": "pull_request_target"}, RefusalReason.EVENT, NOT_BOUND),
    "event workflow_run": ({"event_name": "workflow_run"}, RefusalReason.EVENT, NOT_BOUND),
    "event of nobody": ({"event_name": "Push"}, RefusalReason.EVENT, NOT_BOUND),
    "a pull request of no number": ({"event_name": "pull_request"}, RefusalReason.REF, NOT_BOUND),
    "another workflow": (
        {"job_workflow_ref": "acme/model/.github/workflows/other.yml@refs/heads/main"},
        RefusalReason.WORKFLOW,
        NOT_BOUND,
    ),
    "the same workflow of another repository": (
        {"job_workflow_ref": f"rival/own/{WORKFLOW}@refs/heads/main"},
        RefusalReason.WORKFLOW,
        NOT_BOUND,
    ),
    "another repository with our workflow behind an @": (
        {"job_workflow_ref": OTHER_PATH},
        RefusalReason.WORKFLOW,
        NOT_BOUND,
    ),
    "a workflow with an @ in its name": (
        {"job_workflow_ref": f"acme/model/{WORKFLOW}@other.yml@refs/heads/main"},
        RefusalReason.WORKFLOW,
        NOT_BOUND,
    ),
    "a workflow without a ref": (
        {"job_workflow_ref": f"acme/model/{WORKFLOW}"},
        RefusalReason.WORKFLOW,
        NOT_BOUND,
    ),
}


@pytest.mark.parametrize("case", TOKENS)
def test_refuses_what_the_issuer_did_not_sign(case: str) -> None:
    make, reason, sentence = TOKENS[case]

    with pytest.raises(JobRefused) as refused:
        judged(make())

    assert (refused.value.reason, refused.value.status, str(refused.value)) == (reason, 401, sentence)


@pytest.mark.parametrize("case", CLAIMS)
def test_refuses_what_was_signed_for_something_else(case: str) -> None:
    changes, reason, sentence = CLAIMS[case]

    with pytest.raises(JobRefused) as refused:
        judged(signed(a_job(**changes)))

    assert (refused.value.reason, str(refused.value)) == (reason, sentence)
    assert refused.value.status == (403 if sentence == NOT_BOUND else 401)


def test_refuses_alike_for_another_binding_and_none() -> None:
    foreign = signed(a_job(repository="rival/own", repository_id="7", repository_owner_id="8"))
    refusals = []
    for bound in (MODEL, None):
        with pytest.raises(JobRefused) as refused:
            judged(foreign, bound)
        refusals.append((refused.value.status, str(refused.value)))

    assert refusals[0] == refusals[1] == (403, NOT_BOUND)


@pytest.mark.parametrize(("environment", "is_let_in"), [("perf", True), ("Perf", False), (None, False)])
def test_requires_the_bound_environment(environment: str | None, is_let_in: bool) -> None:
    bound = Repository(environment="perf")
    token = signed(a_job(environment=environment))

    if is_let_in:
        assert judged(token, bound).sha == SHA
        return
    with pytest.raises(JobRefused) as refused:
        judged(token, bound)
    assert refused.value.reason is RefusalReason.ENVIRONMENT


@pytest.mark.parametrize("event", ["push", "schedule", "workflow_dispatch"])
def test_lets_a_job_of_a_bound_ref_write_the_baseline(event: str) -> None:
    assert judged(signed(a_job(event_name=event))) == JobGrant(
        "4711", 1, SHA, None, baseline=True, event=event
    )


@pytest.mark.parametrize(
    "ref", ["refs/heads/feature", "refs/tags/main", "refs/heads/Main", "refs/heads/main/x"]
)
def test_lets_a_job_of_another_ref_write_no_baseline(ref: str) -> None:
    fields = {"ref": ref, "job_workflow_ref": f"acme/model/{WORKFLOW}@{ref}"}

    assert judged(signed(a_job(**fields))) == JobGrant("4711", 1, SHA, None, baseline=False, event="push")


def test_lets_a_pull_request_write_no_baseline_whatever_its_ref() -> None:
    bound = Repository(history_refs=("refs/heads/main", "refs/pull/12/merge"))

    assert judged(signed(of_pull_request(12)), bound) == JobGrant(
        "4711", 1, SHA, 12, baseline=False, event="pull_request"
    )


def test_identifies_a_renamed_repository_by_its_ids() -> None:
    renamed = a_job(repository="acme/models", job_workflow_ref=f"acme/models/{WORKFLOW}@refs/heads/main")

    assert judged(signed(renamed)).baseline


def test_accepts_a_bound_workflow_of_another_repository() -> None:
    shared = "acme/workflows/.github/workflows/perf.yml"
    bound = Repository(workflow=shared)

    assert judged(signed(a_job(job_workflow_ref=f"{shared}@{'0' * 40}")), bound).baseline


@pytest.mark.parametrize("sub", ["repo:acme@583231/model@1296269:ref:refs/heads/main", "anything at all"])
def test_ignores_the_sub_claim(sub: str) -> None:
    assert judged(signed(a_job(sub=sub))).baseline


def test_allows_for_clocks_that_differ_by_half_a_minute() -> None:
    late = a_job(exp=SECOND - 29, iat=SECOND - 300, nbf=SECOND - 300)
    early = a_job(nbf=SECOND + 30, iat=SECOND + 30)

    assert judged(signed(late)) == judged(signed(early))
