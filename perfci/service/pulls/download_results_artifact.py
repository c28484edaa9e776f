"""Read the results artifact of a job from GitHub; its content is untrusted."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice

from perfci.github.artifact_archive import read_artifact_archive, select_run_documents
from perfci.github.client import GitHubClient
from perfci.github.errors import GitHubError, GitHubNoResponse, GitHubUnreachable
from perfci.github.payloads import Artifact
from perfci.github.requester import DownloadLimits
from perfci.model import PerfciError
from perfci.service.pulls.results_artifact_files import RESULTS_FILE, PullResults, parse_pull_results
from perfci.store.jobs.measurement_orders import OrderContent

ARTIFACT_NAME = "perfci-results"
"""Artifact that the measuring job leaves for the reporting one."""

MAX_ARTIFACT_BYTES = 32 * 2**20
"""Maximum size in bytes: two hundred sessions of a hundred benchmarks."""

MAX_ARTIFACTS = 300
"""Newest artifacts among which that of a commit is searched."""

log = logging.getLogger("perfci.github")


@dataclass(frozen=True, slots=True)
class ResultsArtifact:
    """The content of an artifact: findings and run documents, or why it cannot be read."""

    results: PullResults | None = None
    runs: Mapping[str, bytes] = field(default_factory=dict)
    problem: str = ""


def find_artifact_of_commit(
    client: GitHubClient, repository: str, sha: str, other_runs: Collection[int] = ()
) -> Artifact | None:
    """Find the newest unexpired artifact of a commit, not of ``other_runs``."""
    for artifact in islice(client.list_repository_artifacts(repository, ARTIFACT_NAME), MAX_ARTIFACTS):
        run = artifact.workflow_run
        if run and run.head_sha == sha and run.id not in other_runs and not artifact.expired:
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


def fetch_run_artifact(client: GitHubClient, repository: str, run: int, sha: str) -> ResultsArtifact:
    """Fetch the newest artifact of a run that was to measure a commit; an empty one without any."""
    newest = find_artifact_of_run(client, repository, run)
    if newest is None:
        return ResultsArtifact()
    return download_artifact_or_problem(client, repository, newest, sha)


def fetch_order_artifact(
    client: GitHubClient, repository: str, run: int, content: OrderContent
) -> ResultsArtifact:
    """Fetch what the run of an order left; results of other commits than the ordered ones are a problem."""
    artifact = fetch_run_artifact(client, repository, run, content.head_sha)
    base = artifact.results.base.sha if artifact.results else content.base_sha
    if base == content.base_sha:
        return artifact
    problem = f"{RESULTS_FILE} is about the base {base or 'none':.12}, and another one was ordered."
    return ResultsArtifact(problem=problem)


def download_artifact_or_problem(
    client: GitHubClient, repository: str, artifact: Artifact, sha: str
) -> ResultsArtifact:
    """Download an artifact; an unreadable one is a result, not a failure to retry."""
    try:
        return download_results_artifact(client, repository, artifact, sha)
    except (GitHubError, GitHubNoResponse, GitHubUnreachable):
        raise
    except PerfciError as error:
        log.warning("artifact %d of %s: %s", artifact.id, repository, error)
        return ResultsArtifact(problem=str(error))


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
