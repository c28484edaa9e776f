"""What a job left behind for others to read: an artifact in memory, of which a stranger may have made every byte."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from perfci.github.artifact_archive import contents, runs_in
from perfci.github.client import Client
from perfci.github.downloads import Limits
from perfci.github.shapes import Artifact
from perfci.model import PerfciError
from perfci.service.pulls.results_artifact import NAME, HandedOver, handed_over

RESULTS = "perfci-results"
"""The artifact that the job which measures leaves for the one that reports."""

MOST_PACKED = 32 * 2**20
"""Bytes of an artifact: two hundred sessions of a hundred benchmarks."""

MOST_ARTIFACTS = 300
"""How far back the one of a commit is looked for."""


@dataclass(frozen=True, slots=True)
class Left:
    """What a run left behind: findings and run documents, or why they cannot be read."""

    handed: HandedOver | None = None
    runs: Mapping[str, bytes] = field(default_factory=dict)
    problem: str = ""


def newest_of_commit(client: Client, repository: str, sha: str) -> Artifact | None:
    """The newest artifact about a commit, as long as GitHub keeps it."""
    for one in islice(client.newest_artifacts(repository, RESULTS), MOST_ARTIFACTS):
        if one.workflow_run and one.workflow_run.head_sha == sha and not one.expired:
            return one
    return None


def newest_of_run(client: Client, repository: str, run: int) -> Artifact | None:
    """That of the newest attempt of a run."""
    found = [one for one in client.artifacts(repository, run, RESULTS) if one.name == RESULTS and not one.expired]
    return max(found, key=lambda one: one.id, default=None)


def left_in(client: Client, repository: str, artifact: Artifact, sha: str) -> Left:
    """What lies in an artifact; what is about another commit than this one is refused."""
    files = contents(client.download(repository, artifact.id, Limits(MOST_PACKED)))
    if NAME not in files:
        return Left(runs=runs_in(files))
    handed = handed_over(files[NAME], NAME)
    if handed.head.sha != sha:
        raise PerfciError(f"{NAME} is about {handed.head.sha[:12]}, and {sha[:12]} was to be measured.")
    return Left(handed, runs_in(files))
