"""What the token of one CI job may write: only what that job measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from perfci.model import Role, Run

OTHER_RUN: Final = (
    "This token is for what the run {} of GitHub Actions measured until its attempt {}, "
    "and the document names another origin: upload it from the run that measured it."
)
OTHER_SESSION: Final = (
    "The session {} belongs to another origin than this token: give the run a session of its own."
)
NO_BASELINE: Final = (
    "A history is written by push, schedule and workflow_dispatch on the refs a project is bound with, "
    "and this token is of another job: `perfci project repository` shows the refs."
)
OTHER_COMMIT: Final = (
    "This token is for the commit {}, and the document is of {}: "
    "only the base of a comparison may be another commit. "
    "Older ones are for runs that were started by hand on a bound ref, "
    "and for tokens of `perfci token create`."
)
OTHER_PULL_REQUEST: Final = (
    "This token is for {}, and the document is of the pull request {}: upload it from a job of that one."
)
OTHER_EXPECTED_CHANGE: Final = "This token is for the commit {}, and what was announced is of {}."
WORKFLOW_DISPATCH: Final = "workflow_dispatch"


@dataclass(frozen=True, slots=True)
class JobGrant:
    """The rights of a job: ``baseline`` allows it to write a history, ``event`` is what started it."""

    run_id: str
    attempt: int
    sha: str
    pull_request: int | None = None
    baseline: bool = False
    event: str = ""

    @property
    def can_backfill(self) -> bool:
        """Whether the job may upload older commits: a person with write access started it by hand."""
        return self.baseline and self.event == WORKFLOW_DISPATCH


def explain_upload_refusal(grant: JobGrant, run: Run, *, history: bool) -> str:
    """Return why a job's token may not upload a run, empty if it may.

    A retried job may upload what an earlier attempt of the same run measured. For a pull request GitHub
    names a merge commit that is never measured, so any commit is accepted: it enters no history.
    """
    origin = dict(run.origin)
    attempt = origin.get("attempt", "")
    is_number = attempt.isascii() and attempt.isdigit() and len(attempt) < 10
    is_of_job = origin.get("run_id") == grant.run_id and is_number and 1 <= int(attempt) <= grant.attempt
    if not is_of_job:
        return OTHER_RUN.format(grant.run_id, grant.attempt)
    if history and not grant.baseline:
        return NO_BASELINE
    if (claimed := origin.get("pull_request")) and claimed != str(grant.pull_request):
        own = f"the pull request {grant.pull_request}" if grant.pull_request else "no pull request"
        return OTHER_PULL_REQUEST.format(own, claimed[:12])
    is_bound = grant.pull_request is None and not grant.can_backfill
    if is_bound and run.commit.sha != grant.sha:
        roles = {process.role for result in run.results for process in result.processes}
        if roles != {Role.BASE}:
            return OTHER_COMMIT.format(grant.sha[:12], run.commit.sha[:12])
    return ""


def explain_expected_change_refusal(grant: JobGrant, sha: str) -> str:
    """Return why a job's token may not record an expected change of a commit, empty if it may."""
    if not grant.baseline:
        return NO_BASELINE
    if grant.can_backfill or sha == grant.sha:
        return ""
    return OTHER_EXPECTED_CHANGE.format(grant.sha[:12], sha[:12])
