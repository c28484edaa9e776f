"""Check whether a GitHub job may write to the project that its repository is bound to."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, Protocol

from perfci.auth.grants import WORKFLOW_DISPATCH, JobGrant
from perfci.auth.oidc import JobClaims
from perfci.auth.refusals import RefusalReason, job_refusal

BASELINE_EVENTS: Final = frozenset({"push", "schedule", WORKFLOW_DISPATCH})
PULL_REQUEST: Final = "pull_request"
ALLOWED_EVENTS: Final = BASELINE_EVENTS | {PULL_REQUEST}
"""Without ``pull_request_target``: it runs code of a stranger with the rights of the base repository."""

MERGE_REF = re.compile(r"refs/pull/([1-9][0-9]{0,8})/merge")
COMMIT_SHA = re.compile(r"[0-9a-f]{40}")


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
    def refs(self) -> Collection[str]:
        """The refs whose jobs may write a history."""


def admit_job(claims: JobClaims, binding: RepositoryBinding | None) -> JobGrant:
    """Return the grant of a job in a bound project, or raise ``JobRefused``.

    GitHub reuses names but never numbers: a renamed repository still matches, another one under its old
    name does not, and one that was transferred must be bound again.
    """
    if binding is None:
        raise job_refusal(RefusalReason.UNBOUND)
    if claims.repository_id != str(binding.repository_id):
        raise job_refusal(RefusalReason.REPOSITORY)
    if claims.repository_owner_id != str(binding.owner_id):
        raise job_refusal(RefusalReason.OWNER)
    if claims.event_name not in ALLOWED_EVENTS:
        raise job_refusal(RefusalReason.EVENT)
    number = _pull_request_number(claims)
    if not _is_workflow(claims, binding.workflow):
        raise job_refusal(RefusalReason.WORKFLOW)
    if binding.environment and claims.environment != binding.environment:
        raise job_refusal(RefusalReason.ENVIRONMENT)
    baseline = claims.event_name in BASELINE_EVENTS and claims.ref in binding.refs
    return JobGrant(claims.run_id, int(claims.run_attempt), claims.sha, number, baseline, claims.event_name)


def _pull_request_number(claims: JobClaims) -> int | None:
    if claims.event_name != PULL_REQUEST:
        return None
    match = MERGE_REF.fullmatch(claims.ref)
    if match is None:
        raise job_refusal(RefusalReason.REF)
    return int(match[1])


def _is_workflow(claims: JobClaims, workflow: str) -> bool:
    """Whether the job's workflow file is the bound one: the part before the first @, followed by a ref.

    Without the check of the ref, ``perf.yml@other.yml`` would pass for ``perf.yml``.
    """
    file, _, ref = claims.job_workflow_ref.partition("@")
    whole = f"{claims.repository}/{workflow}" if workflow.startswith(".github/") else workflow
    return file == whole and (ref.startswith("refs/") or COMMIT_SHA.fullmatch(ref) is not None)
