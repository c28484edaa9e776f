"""Whether a job of GitHub is the one a project was bound to."""

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
"""``pull_request_target`` is none of them: it runs with the rights of the base on what a stranger wrote."""

MERGE_REF = re.compile(r"refs/pull/([1-9][0-9]{0,8})/merge")
COMMIT_SHA = re.compile(r"[0-9a-f]{40}")


class RepositoryBinding(Protocol):
    """The repository of a project; the store's own fits. ``workflow`` begins with .github where it is its
    own.
    """

    @property
    def repository_id(self) -> int: ...
    @property
    def owner_id(self) -> int: ...
    @property
    def workflow(self) -> str: ...
    @property
    def environment(self) -> str: ...
    @property
    def refs(self) -> Collection[str]: ...


def admit_job(claims: JobClaims, binding: RepositoryBinding | None) -> JobGrant:
    """What a job may write where a project is bound to it; else ``JobRefused``.

    Names are given to others, numbers never: a repository that was renamed is the same one, another one
    that took its name is not, and one that changed hands must be bound anew.
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
    """Whether the file of the job is the bound one: what stands before the first @, if a ref follows.

    Without the second half a file ``perf.yml@other.yml`` would pass for ``perf.yml``.
    """
    file, _, ref = claims.job_workflow_ref.partition("@")
    whole = f"{claims.repository}/{workflow}" if workflow.startswith(".github/") else workflow
    return file == whole and (ref.startswith("refs/") or COMMIT_SHA.fullmatch(ref) is not None)
