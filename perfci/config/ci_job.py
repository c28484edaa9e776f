"""Read which job of a continuous integration system this process runs in."""

from __future__ import annotations

from collections.abc import Mapping

from perfci.config.github_job import read_github_job
from perfci.config.toml_tables import ConfigTable
from perfci.model import NamedValues

PULL_REQUEST = "pull_request"
"""The event of a run that never enters a history."""


class JobPullRequest(ConfigTable):
    """The pull or merge request that a job is of.

    ``merge`` is the commit that was checked out where the system merges ``head`` into its target for the job.
    ``base`` is the commit of the target that the request starts from; without it, ``base_branch`` is its
    target.
    """

    number: str
    head: str = ""
    base: str = ""
    merge: str = ""
    base_branch: str = ""


class CiJob(ConfigTable):
    """The commit of a job, and what is stored as the origin of results that are read in it.

    The pull request of a job of GitHub Actions is in the file of its event.
    """

    sha: str = ""
    origin: NamedValues = ()
    pull_request: JobPullRequest | None = None


def read_ci_job(environ: Mapping[str, str]) -> CiJob | None:
    """Read the job of GitHub Actions, GitLab or Buildkite; None outside of them."""
    github = read_github_job(environ)
    if github is not None:
        return CiJob(sha=github.sha, origin=github.run_origin_fields)
    if environ.get("GITLAB_CI") == "true":
        # https://docs.gitlab.com/ci/variables/predefined_variables/
        source = environ.get("CI_PIPELINE_SOURCE", "")
        event = PULL_REQUEST if source == "merge_request_event" else source
        job = _build_job(environ, "CI_COMMIT_SHA", "CI_PIPELINE_ID", "CI_JOB_NAME", event)
        return job.model_copy(update={"pull_request": _read_gitlab_merge_request(environ)})
    if environ.get("BUILDKITE") == "true":
        # https://buildkite.com/docs/pipelines/configure/environment-variables
        is_pull_request = environ.get("BUILDKITE_PULL_REQUEST", "false") != "false"
        event = PULL_REQUEST if is_pull_request else environ.get("BUILDKITE_SOURCE", "")
        job = _build_job(environ, "BUILDKITE_COMMIT", "BUILDKITE_BUILD_ID", "BUILDKITE_STEP_KEY", event)
        pull_request = JobPullRequest(
            number=environ.get("BUILDKITE_PULL_REQUEST", ""),
            head=job.sha,
            base_branch=environ.get("BUILDKITE_PULL_REQUEST_BASE_BRANCH", ""),
        )
        return job.model_copy(update={"pull_request": pull_request if is_pull_request else None})
    return None


def _read_gitlab_merge_request(environ: Mapping[str, str]) -> JobPullRequest | None:
    """Read the merge request of a pipeline; a pipeline of merged results checks out a merge commit."""
    number = environ.get("CI_MERGE_REQUEST_IID", "")
    if not number:
        return None
    sha, source = environ.get("CI_COMMIT_SHA", ""), environ.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", "")
    target = environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_SHA", "") if source else ""
    return JobPullRequest(
        number=number,
        head=source or sha,
        base=target or environ.get("CI_MERGE_REQUEST_DIFF_BASE_SHA", ""),
        merge=sha if source else "",
    )


def _build_job(environ: Mapping[str, str], sha: str, run_id: str, job: str, event: str) -> CiJob:
    origin = {"run_id": environ.get(run_id, ""), "job": environ.get(job, ""), "event": event}
    return CiJob(
        sha=environ.get(sha, ""), origin=tuple((name, value) for name, value in origin.items() if value)
    )
