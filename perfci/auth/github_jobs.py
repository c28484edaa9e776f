"""Whether a job of GitHub is the one a project was bound to."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, Protocol

from perfci.auth.grants import BY_HAND, Grant
from perfci.auth.oidc import Claims
from perfci.auth.refusals import Reason, refused

BASELINE_EVENTS: Final = frozenset({"push", "schedule", BY_HAND})
PULL_REQUEST: Final = "pull_request"
EVENTS: Final = BASELINE_EVENTS | {PULL_REQUEST}
"""``pull_request_target`` is none of them: it runs with the rights of the base on what a stranger wrote."""

MERGE = re.compile(r"refs/pull/([1-9][0-9]{0,8})/merge")
AT_COMMIT = re.compile(r"[0-9a-f]{40}")


class Bound(Protocol):
    """The repository of a project; the store's own fits. ``workflow`` begins with .github where it is its own."""

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


def admitted(claims: Claims, bound: Bound | None) -> Grant:
    """What a job may write where a project is bound to it; else ``JobRefused``.

    Names are given to others, numbers never: a repository that was renamed is the same one, another one that took its
    name is not, and one that changed hands must be bound anew.
    """
    if bound is None:
        raise refused(Reason.UNBOUND)
    if claims.repository_id != str(bound.repository_id):
        raise refused(Reason.REPOSITORY)
    if claims.repository_owner_id != str(bound.owner_id):
        raise refused(Reason.OWNER)
    if claims.event_name not in EVENTS:
        raise refused(Reason.EVENT)
    number = _pull_request(claims)
    if not _is_workflow(claims, bound.workflow):
        raise refused(Reason.WORKFLOW)
    if bound.environment and claims.environment != bound.environment:
        raise refused(Reason.ENVIRONMENT)
    baseline = claims.event_name in BASELINE_EVENTS and claims.ref in bound.refs
    return Grant(claims.run_id, int(claims.run_attempt), claims.sha, number, baseline, claims.event_name)


def _pull_request(claims: Claims) -> int | None:
    if claims.event_name != PULL_REQUEST:
        return None
    found = MERGE.fullmatch(claims.ref)
    if found is None:
        raise refused(Reason.REF)
    return int(found[1])


def _is_workflow(claims: Claims, workflow: str) -> bool:
    """Whether the file of the job is the bound one: what stands before the first @, if a ref follows.

    Without the second half a file ``perf.yml@other.yml`` would pass for ``perf.yml``.
    """
    file, _, ref = claims.job_workflow_ref.partition("@")
    whole = f"{claims.repository}/{workflow}" if workflow.startswith(".github/") else workflow
    return file == whole and (ref.startswith("refs/") or AT_COMMIT.fullmatch(ref) is not None)
