"""Take the runs of artifacts in, at the pace at which a project may upload."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from perfci.config import Settings
from perfci.github.payloads import WorkflowRun
from perfci.model import PerfciError
from perfci.service.audit_context import AuditContext
from perfci.service.pulls.download_results_artifact import ResultsArtifact
from perfci.service.pulls.store_artifact_runs import build_pull_request_quota, store_artifact_runs
from perfci.service.token_buckets import TokenBuckets
from perfci.store import Store
from perfci.store.projects import Project

MIB = 1024 * 1024

log = logging.getLogger("perfci.github")


class UploadsTooFast(PerfciError):
    """The artifacts of a project are more than it may upload in a minute."""

    def __init__(self, wait_s: int) -> None:
        super().__init__("The pull requests of this project bring more than [server] uploads_per_minute_mb.")
        self.retry_after_s = wait_s


@dataclass(frozen=True)
class ArtifactIntake:
    """Stores the runs of artifacts; one allowance holds for all that a process takes in."""

    store: Store
    settings: Settings
    _buckets: TokenBuckets = field(init=False)

    def __post_init__(self) -> None:
        size = self.settings.server.uploads_per_minute_mb * MIB
        object.__setattr__(self, "_buckets", TokenBuckets(size))

    def store_runs(
        self,
        workflow_run: WorkflowRun,
        artifact: ResultsArtifact,
        project: Project,
        context: AuditContext,
        pull_number: int | None = None,
    ) -> list[str]:
        """Store the runs of an artifact and return their sessions; raise where that is too much for now.

        ``pull_number`` is the pull request that GitHub names for the run.
        """
        if wait_s := self._buckets.take(project.slug, sum(map(len, artifact.runs.values()))):
            raise UploadsTooFast(wait_s)
        quota = build_pull_request_quota(self.settings.server, workflow_run)
        sessions, refused = store_artifact_runs(
            self.store, project, workflow_run, artifact.runs, context, quota, pull_number
        )
        if refused:
            problem = f"{len(refused)} of its documents or sessions are not stored, {refused[0]}"
            log.warning("run %d of %s: %s", workflow_run.id, workflow_run.repository.full_name, problem)
        return sessions
