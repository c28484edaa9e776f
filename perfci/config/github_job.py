"""Read the variables of a GitHub Actions job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr

from perfci.config.toml_tables import ConfigTable
from perfci.model import NamedValues


class GitHubJob(ConfigTable):
    """A job as GitHub describes it; ``ref`` is the branch ``sha`` was pushed to, as ``refs/heads/main``.

    Source: https://docs.github.com/actions/reference/workflows-and-actions/variables. ``event`` is the
    file with the event, ``summary`` and ``outputs`` are the files a step appends to; ``token`` is only
    set if the workflow passes it.
    """

    repository: str = ""
    event_name: str = ""
    event: Path | None = None
    sha: str = ""
    ref: str = ""
    api_url: str = "https://api.github.com"
    server_url: str = "https://github.com"
    run_id: str = ""
    attempt: str = ""
    job: str = ""
    summary: Path | None = None
    outputs: Path | None = None
    token: SecretStr = SecretStr("")
    id_token_url: str = ""  # where GitHub signs what this job is; only with the permission id-token: write
    id_token_secret: SecretStr = SecretStr("")

    @property
    def workflow_run_url(self) -> str:
        """The address of this workflow run's page."""
        return self.format_workflow_run_url(self.run_id, self.attempt or 1)

    def format_workflow_run_url(self, run_id: int | str, attempt: int | str) -> str:
        """Format the address of a workflow run's page."""
        return f"{self.server_url}/{self.repository}/actions/runs/{run_id}/attempts/{attempt}"

    @property
    def run_origin_fields(self) -> NamedValues:
        """The origin stored with runs measured in this job."""
        places = {"run_id": self.run_id, "attempt": self.attempt, "job": self.job, "event": self.event_name}
        return tuple((name, value) for name, value in places.items() if value)


def read_github_job(environ: Mapping[str, str]) -> GitHubJob | None:
    """Read the job this process runs in; None outside of GitHub Actions."""
    if environ.get("GITHUB_ACTIONS") != "true":
        return None
    values = {
        "repository": environ.get("GITHUB_REPOSITORY", ""),
        "event_name": environ.get("GITHUB_EVENT_NAME", ""),
        "event": environ.get("GITHUB_EVENT_PATH", ""),
        "sha": environ.get("GITHUB_SHA", ""),
        "ref": environ.get("GITHUB_REF", ""),
        "api_url": environ.get("GITHUB_API_URL", ""),
        "server_url": environ.get("GITHUB_SERVER_URL", ""),
        "run_id": environ.get("GITHUB_RUN_ID", ""),
        "attempt": environ.get("GITHUB_RUN_ATTEMPT", ""),
        "job": environ.get("GITHUB_JOB", ""),
        "summary": environ.get("GITHUB_STEP_SUMMARY", ""),
        "outputs": environ.get("GITHUB_OUTPUT", ""),
        "token": environ.get("GITHUB_TOKEN", ""),
        "id_token_url": environ.get("ACTIONS_ID_TOKEN_REQUEST_URL", ""),
        "id_token_secret": environ.get("ACTIONS_ID_TOKEN_REQUEST_TOKEN", ""),
    }
    # GitHub sets some variables to nothing; those have their defaults.
    return GitHubJob.model_validate({name: text for name, text in values.items() if text})
