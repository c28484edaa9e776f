"""Say of runs which pull request they are of: a run is filed under its head, and names the base."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from perfci.config.ci_job import PULL_REQUEST, JobPullRequest
from perfci.model import Commit, PerfciError, Role, Run
from perfci.store.queries.comparisons.pull_request_uploads import (
    BASE_FIELD,
    BASE_POSITION_FIELD,
    PULL_REQUEST_FIELD,
)

FindMergeBase = Callable[[str, str], str | None]
"""Finds the merge base of two revisions of the repository here."""


@dataclass(frozen=True, slots=True)
class UploadPullRequest:
    """The pull request that uploads belong to, with the place of its base on the first-parent line."""

    number: str
    head: str = ""
    base: str = ""
    merge: str = ""
    base_position: int | None = None

    def assign_to(self, run: Run) -> Run:
        """File a run under the pull request.

        Pairs, and runs of other commits than its head, stay as they are. Results of the merge of head and
        target that a CI system checks out are filed under the head.
        """
        roles = {process.role for result in run.results for process in result.processes}
        is_of_head = not self.head or run.commit.sha in (self.head, self.merge)
        if not is_of_head or not roles <= {Role.HISTORY}:
            return run
        commit = run.commit
        if self.head and commit.sha != self.head:
            commit = Commit(self.head, dirty=commit.dirty)
        origin = dict(run.origin)
        if not origin.get("event", "").startswith(PULL_REQUEST):
            origin["event"] = PULL_REQUEST
        origin[PULL_REQUEST_FIELD] = self.number
        if self.base:
            origin[BASE_FIELD] = self.base
        if self.base_position is not None:
            origin[BASE_POSITION_FIELD] = str(self.base_position)
        return replace(run, commit=commit, origin=tuple(origin.items()))


def build_upload_pull_request(
    job: JobPullRequest | None,
    number: int | None,
    base: str,
    commits: Mapping[str, Commit],
    find_merge_base: FindMergeBase,
) -> UploadPullRequest | None:
    """Build the pull request of uploads: that of the options, else that of the job; None for none.

    The base is the merge base of head and target where the repository here knows both.
    """
    if number is not None:
        job = JobPullRequest(
            number=str(number),
            base=base,
            **({} if job is None or job.number != str(number) else {"head": job.head, "merge": job.merge}),
        )
    elif job is None:
        if base:
            raise PerfciError("--base names where a pull request starts: give --pull-request NUMBER as well")
        return None
    elif base:
        job = job.model_copy(update={"base": base})
    start = job.base
    if not job.merge:
        target = job.base or (f"origin/{job.base_branch}" if job.base_branch else "")
        with suppress(PerfciError):
            start = (target and find_merge_base(target, job.head or "HEAD")) or start
    commit = commits.get(start)
    return UploadPullRequest(job.number, job.head, start, job.merge, commit.position if commit else None)
