"""OIDC token exchange: a GitHub Actions job presents its identity token and receives an upload token."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from sqlalchemy.orm import Session

from perfci.auth.github_job_authorization import (
    LEEWAY_S,
    ExpectedIssuer,
    JobClaims,
    JobRefused,
    KeyLookup,
    RefusalReason,
    authorize_job,
    build_job_refusal,
    verify_oidc_token,
)
from perfci.auth.job_grants import JobGrant
from perfci.auth.permissions import EVERY_PROJECT_ID
from perfci.auth.tokens import make_token
from perfci.config import Settings
from perfci.model import PerfciError
from perfci.service.accounts.repository_bindings import update_repository_name
from perfci.store.access import audit_log, ci_job_tokens, github_bindings
from perfci.store.access.ci_job_tokens import RunToken
from perfci.store.access.github_bindings import ProjectBinding
from perfci.store.writes.group_commit import GroupCommitter

TOKEN_LIFETIME = timedelta(minutes=15)

AUDIT_ADMIT, AUDIT_REFUSE = "job.admit", "job.refuse"
"""Audit actions; refusals are recorded once a day for each repository and reason."""

AUDITED_CLAIMS = (
    "repository",
    "repository_owner_id",
    "event_name",
    "ref",
    "sha",
    "run_id",
    "run_attempt",
    "job_workflow_ref",
    "environment",
)

log = logging.getLogger("perfci.jobs")


@dataclass(frozen=True, slots=True)
class IssuedJobToken:
    """A token for one job with its secret text, which is shown only once."""

    token: RunToken
    text: str = field(repr=False)


def build_expected_issuer(settings: Settings) -> ExpectedIssuer:
    """Build the expected issuer and audience from the configuration of this server."""
    if not settings.server.public_url:
        raise PerfciError(
            "This server takes no tokens of GitHub's jobs: its operator has not set [server] public_url."
        )
    return ExpectedIssuer(settings.access.oidc_issuer, settings.server.public_url)


def issue_job_token(
    committer: GroupCommitter,
    keys: KeyLookup,
    expected: ExpectedIssuer,
    project: str,
    token: str,
    *,
    now: datetime,
    request_id: str,
) -> IssuedJobToken:
    """Issue the token of a job, or raise ``JobRefused``; invalid identity tokens are not audited."""
    try:
        claims = verify_oidc_token(token, expected, keys, now)
    except JobRefused as error:
        log.info("a job's token is refused: %s", error.reason, extra={"request_id": request_id})
        raise
    job = _TokenExchange(claims, project, expected.issuer, now, request_id)
    issued = committer.submit(job.run)
    if isinstance(issued, JobRefused):
        log.info(
            "a job of %s is refused: %s", claims.repository, issued.reason, extra={"request_id": request_id}
        )
        raise issued
    return issued


def mark_identity_token_used(tx: Session, claims: JobClaims, issuer: str, now: datetime) -> None:
    """Mark the identity token of a job as used; raise if it was used before."""
    ci_job_tokens.delete_expired_tokens(tx, now)
    name = sha256(f"{issuer}\n{claims.jti}".encode()).hexdigest()
    expires_at = datetime.fromtimestamp(claims.expires_s, UTC) + timedelta(seconds=LEEWAY_S)
    if not ci_job_tokens.mark_oidc_token_used(tx, name, expires_at):
        raise build_job_refusal(RefusalReason.REPLAY)


@dataclass(frozen=True, slots=True)
class _TokenExchange:
    """The verified claims of a job and the project it requests."""

    claims: JobClaims
    project: str
    issuer: str
    now: datetime
    request_id: str

    def run(self, tx: Session) -> IssuedJobToken | JobRefused:
        """Return a refusal instead of raising it, so that its audit entry is committed."""
        binding = github_bindings.find_binding_of_project(tx, self.project)
        try:
            grant = authorize_job(self.claims, binding.repository if binding else None)
            mark_identity_token_used(tx, self.claims, self.issuer, self.now)
        except JobRefused as error:
            self._note_refusal(tx, binding, error.reason)
            return error
        assert binding is not None
        update_repository_name(tx, binding, self.claims.repository, self.now, self.request_id)
        return self._issue_token(tx, binding.project_id, grant)

    def _issue_token(self, tx: Session, project_id: int, grant: JobGrant) -> IssuedJobToken:
        minted = make_token("r")
        token = RunToken(
            uid=secrets.token_hex(6),
            project_id=project_id,
            run_id=grant.run_id,
            attempt=grant.attempt,
            sha=grant.sha,
            event=self.claims.event_name,
            pull_request=grant.pull_request,
            baseline=grant.baseline,
            expires_at=self.now + TOKEN_LIFETIME,
            secret_hash=minted.hash,
        )
        ci_job_tokens.add_job_token(tx, token)
        self._record_audit(
            tx, AUDIT_ADMIT, token.uid, project_id, self._build_audit_detail() | {"baseline": grant.baseline}
        )
        return IssuedJobToken(token, minted.text)

    def _note_refusal(self, tx: Session, binding: ProjectBinding | None, reason: RefusalReason) -> None:
        project_id = binding.project_id if binding else EVERY_PROJECT_ID
        action = f"{AUDIT_REFUSE}.{reason}"
        today = self.now.replace(hour=0, minute=0, second=0, microsecond=0)
        if not audit_log.has_entry_since(tx, project_id, self._actor, action, today):
            self._record_audit(tx, action, self.project[:200], project_id, self._build_audit_detail())

    def _record_audit(
        self, tx: Session, action: str, subject: str, project_id: int, detail: Mapping[str, object]
    ) -> None:
        audit_log.add_entry(
            tx,
            self._actor,
            action,
            subject,
            at=self.now,
            project_id=project_id,
            detail=detail,
            request_id=self.request_id,
        )

    @property
    def _actor(self) -> str:
        return f"github-repository/{self.claims.repository_id}"

    def _build_audit_detail(self) -> dict[str, object]:
        """Select the claims that the audit log keeps."""
        return {name: getattr(self.claims, name)[:500] for name in AUDITED_CLAIMS}
