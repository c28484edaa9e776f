"""Read the results artifact of a job from GitHub; its content is untrusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from perfci.github.artifact_archive import read_artifact_archive, select_run_documents
from perfci.github.client import GitHubClient
from perfci.github.payloads import Artifact
from perfci.github.requester import DownloadLimits
from perfci.model import PerfciError
from perfci.service.pulls.results_artifact_files import RESULTS_FILE, PullResults, parse_pull_results

ARTIFACT_NAME = "perfci-results"
"""Artifact that the measuring job leaves for the reporting one."""

MAX_ARTIFACT_BYTES = 32 * 2**20
"""Maximum size in bytes: two hundred sessions of a hundred benchmarks."""

MAX_ARTIFACTS = 300
"""Newest artifacts among which that of a commit is searched."""


@dataclass(frozen=True, slots=True)
class ResultsArtifact:
    """The content of an artifact: findings and run documents, or why it cannot be read."""

    results: PullResults | None = None
    runs: Mapping[str, bytes] = field(default_factory=dict)
    problem: str = ""


def find_artifact_of_commit(client: GitHubClient, repository: str, sha: str) -> Artifact | None:
    """Find the newest unexpired artifact of a commit."""
    for artifact in islice(client.list_repository_artifacts(repository, ARTIFACT_NAME), MAX_ARTIFACTS):
        if artifact.workflow_run and artifact.workflow_run.head_sha == sha and not artifact.expired:
            return artifact
    return None


def find_artifact_of_run(client: GitHubClient, repository: str, run: int) -> Artifact | None:
    """Find the artifact of the newest attempt of a workflow run."""
    artifacts = [
        artifact
        for artifact in client.list_workflow_run_artifacts(repository, run, ARTIFACT_NAME)
        if artifact.name == ARTIFACT_NAME and not artifact.expired
    ]
    return max(artifacts, key=lambda artifact: artifact.id, default=None)


def download_results_artifact(
    client: GitHubClient, repository: str, artifact: Artifact, sha: str
) -> ResultsArtifact:
    """Download and parse an artifact; results of another commit than ``sha`` are refused."""
    files = read_artifact_archive(
        client.download_artifact(repository, artifact.id, DownloadLimits(MAX_ARTIFACT_BYTES))
    )
    if RESULTS_FILE not in files:
        return ResultsArtifact(runs=select_run_documents(files))
    results = parse_pull_results(files[RESULTS_FILE], RESULTS_FILE)
    if results.head.sha != sha:
        raise PerfciError(
            f"{RESULTS_FILE} is about {results.head.sha[:12]}, and {sha[:12]} was to be measured."
        )
    return ResultsArtifact(results, select_run_documents(files))
