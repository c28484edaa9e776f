"""What a server that is a GitHub App does by and by: received events, orders, and their lines in comments."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from perfci.config import Settings
from perfci.github.app_auth import GitHubApp
from perfci.service.pulls.answer_order import OrderAnswerer
from perfci.service.pulls.artifact_intake import ArtifactIntake
from perfci.service.pulls.github_event_handler import GitHubEventHandler
from perfci.service.pulls.github_event_worker import GitHubEventWorker
from perfci.service.pulls.github_order_engine import GitHubOrderEngine
from perfci.service.pulls.order_progress import OrderProgressWriter
from perfci.service.pulls.pull_reporter import PullReporter
from perfci.service.pulls.worker_answers import WorkerAnswerReporter
from perfci.store import Store


@dataclass(frozen=True, slots=True)
class GitHubInbox:
    """Works under one lease and in one thread, so that nothing writes to a comment at the same time."""

    events: GitHubEventWorker
    engine: GitHubOrderEngine
    progress: OrderProgressWriter
    answers: WorkerAnswerReporter

    def __call__(self, now: datetime) -> int:
        """Process the oldest due event, and take the orders a step further; return how much was done."""
        return self.events(now) + self.engine(now) + self.progress(now) + self.answers(now)


def build_github_inbox(store: Store, app: GitHubApp, settings: Settings) -> GitHubInbox:
    """Build the inbox of a server."""
    reporter, intake = PullReporter(store, app, settings), ArtifactIntake(store, settings)
    engine = GitHubOrderEngine(OrderAnswerer(reporter, intake))
    handler = GitHubEventHandler(reporter, intake, engine.wake)
    progress, answers = OrderProgressWriter(reporter), WorkerAnswerReporter(store)
    return GitHubInbox(GitHubEventWorker(store, handler), engine, progress, answers)
