"""A job of GitHub shows what GitHub says of it, and gets a token of ours for what it measured."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from sqlalchemy.orm import Session

from perfci.auth.github_jobs import admitted
from perfci.auth.grants import Grant
from perfci.auth.oidc import LEEWAY_S, Claims, Expected, Keys, verified
from perfci.auth.permissions import EVERYWHERE
from perfci.auth.refusals import JobRefused, Reason, refused
from perfci.auth.tokens import make_token
from perfci.config import Settings
from perfci.model import PerfciError
from perfci.service.accounts.repository_bindings import follow_name
from perfci.store.access import audit_log, github_bindings
from perfci.store.access.github_bindings import Binding, RunToken
from perfci.store.writes.group_commit import Group

LIVES = timedelta(minutes=15)

ADMITTED, REFUSED = "job.admit", "job.refuse"
"""What the audit log calls these; of refusals there is one line a day for each job's repository and reason."""

LOOKED_AT = (
    "repository", "repository_owner_id", "event_name", "ref", "sha", "run_id", "run_attempt", "job_workflow_ref",
    "environment",
)  # fmt: skip

log = logging.getLogger("perfci.jobs")


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A token for one job, with its text, which nobody can ask for again."""

    token: RunToken
    text: str = field(repr=False)


def expected_of(settings: Settings) -> Expected:
    """Who must have signed and for whom, from our own configuration alone."""
    if not settings.server.public_url:
        raise PerfciError("This server takes no tokens of GitHub's jobs: its operator has not set [server] public_url.")
    return Expected(settings.access.issuer, settings.server.public_url)


def exchange(
    group: Group, keys: Keys, expected: Expected, project: str, token: str, *, now: datetime, request_id: str
) -> Exchanged:
    """Give a job its token, or raise ``JobRefused``; a stranger learns of no project, and cannot fill the audit log."""
    try:
        claims = verified(token, expected, keys, now)
    except JobRefused as error:
        log.info("a job's token is refused: %s", error.reason, extra={"request_id": request_id})
        raise
    job = _Job(claims, project, expected.issuer, now, request_id)
    made = group.submit(job.exchanged)
    if isinstance(made, JobRefused):
        log.info("a job of %s is refused: %s", claims.repository, made.reason, extra={"request_id": request_id})
        raise made
    return made


@dataclass(frozen=True, slots=True)
class _Job:
    """A job that GitHub vouched for, and the project it asks for."""

    claims: Claims
    project: str
    issuer: str
    now: datetime
    request_id: str

    def exchanged(self, tx: Session) -> Exchanged | JobRefused:
        """A refusal is answered, not raised: its line in the audit log is to be stored."""
        binding = github_bindings.binding_of(tx, self.project)
        try:
            grant = admitted(self.claims, binding.repository if binding else None)
            self._use(tx)
        except JobRefused as error:
            self._note_refusal(tx, binding, error.reason)
            return error
        assert binding is not None
        follow_name(tx, binding, self.claims.repository, self.now, self.request_id)
        return self._minted(tx, binding.project_id, grant)

    def _use(self, tx: Session) -> None:
        github_bindings.forget_over(tx, self.now)
        name = sha256(f"{self.issuer}\n{self.claims.jti}".encode()).hexdigest()
        if not github_bindings.use_once(tx, name, self._over_at()):
            raise refused(Reason.REPLAY)

    def _over_at(self) -> datetime:
        return datetime.fromtimestamp(self.claims.expires_s, UTC) + timedelta(seconds=LEEWAY_S)

    def _minted(self, tx: Session, project_id: int, grant: Grant) -> Exchanged:
        minted = make_token("r")
        token = RunToken(
            uid=secrets.token_hex(6), project_id=project_id, run_id=grant.run_id, attempt=grant.attempt, sha=grant.sha,
            event=self.claims.event_name, pull_request=grant.pull_request, baseline=grant.baseline,
            expires_at=self.now + LIVES, secret_hash=minted.hash,
        )  # fmt: skip
        github_bindings.add_run_token(tx, token)
        self._note(tx, ADMITTED, token.uid, project_id, self._told() | {"baseline": grant.baseline})
        return Exchanged(token, minted.text)

    def _note_refusal(self, tx: Session, binding: Binding | None, reason: Reason) -> None:
        project_id = binding.project_id if binding else EVERYWHERE
        action = f"{REFUSED}.{reason}"
        today = self.now.replace(hour=0, minute=0, second=0, microsecond=0)
        if not audit_log.was_done(tx, project_id, self._actor, action, today):
            self._note(tx, action, self.project[:200], project_id, self._told())

    def _note(self, tx: Session, action: str, subject: str, project_id: int, detail: Mapping[str, object]) -> None:
        audit_log.record(
            tx, self._actor, action, subject,
            at=self.now, project_id=project_id, detail=detail, request_id=self.request_id,
        )  # fmt: skip

    @property
    def _actor(self) -> str:
        return f"github-repository/{self.claims.repository_id}"

    def _told(self) -> dict[str, object]:
        """What GitHub said of the job, as far as it was looked at."""
        return {name: getattr(self.claims, name)[:500] for name in LOOKED_AT}
