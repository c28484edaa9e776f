"""Read which job of a continuous integration system this process runs in."""

from __future__ import annotations

from collections.abc import Mapping

from perfci.config.github_job import read_github_job
from perfci.config.toml_tables import ConfigTable
from perfci.model import NamedValues

PULL_REQUEST = "pull_request"
"""The event of a run that never enters a history."""


class CiJob(ConfigTable):
    """The commit of a job, and what is stored as the origin of results that are read in it."""

    sha: str = ""
    origin: NamedValues = ()


def read_ci_job(environ: Mapping[str, str]) -> CiJob | None:
    """Read the job of GitHub Actions, GitLab or Buildkite; None outside of them."""
    github = read_github_job(environ)
    if github is not None:
        return CiJob(sha=github.sha, origin=github.run_origin_fields)
    if environ.get("GITLAB_CI") == "true":
        # https://docs.gitlab.com/ci/variables/predefined_variables/
        source = environ.get("CI_PIPELINE_SOURCE", "")
        event = PULL_REQUEST if source == "merge_request_event" else source
        return _build_job(environ, "CI_COMMIT_SHA", "CI_PIPELINE_ID", "CI_JOB_NAME", event)
    if environ.get("BUILDKITE") == "true":
        # https://buildkite.com/docs/pipelines/configure/environment-variables
        is_pull_request = environ.get("BUILDKITE_PULL_REQUEST", "false") != "false"
        event = PULL_REQUEST if is_pull_request else environ.get("BUILDKITE_SOURCE", "")
        return _build_job(environ, "BUILDKITE_COMMIT", "BUILDKITE_BUILD_ID", "BUILDKITE_STEP_KEY", event)
    return None


def _build_job(environ: Mapping[str, str], sha: str, run_id: str, job: str, event: str) -> CiJob:
    origin = {"run_id": environ.get(run_id, ""), "job": environ.get(job, ""), "event": event}
    return CiJob(
        sha=environ.get(sha, ""), origin=tuple((name, value) for name, value in origin.items() if value)
    )
