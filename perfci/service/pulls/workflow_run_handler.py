"""Follow a run of a workflow as a GitHub App: what it measured is stored, and its pull requests are told."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path

from perfci.config import Config, Settings
from perfci.github.app_auth import App, Key
from perfci.github.client import Client
from perfci.github.errors import Refused, Unanswered, Unreachable
from perfci.github.find_pulls import pulls_of_run
from perfci.github.pull_report import Author, Overtaken
from perfci.github.shapes import WorkflowRun
from perfci.model import Commit, PerfciError
from perfci.report.pulls.placeholder_comment import NotMeasured
from perfci.service.audit_context import AuditContext
from perfci.service.pulls.read_artifact import Left, left_in, newest_of_commit, newest_of_run
from perfci.service.pulls.record_merged_pull import take_announced
from perfci.service.pulls.report_pull import Pull, age, nothing_of, page_of, tell
from perfci.service.pulls.results_artifact import HandedOver
from perfci.service.pulls.store_results import actor_of, take_in
from perfci.service.pulls.webhook_receiver import ACCEPTED, BEGUN, MERGED, is_bound_run
from perfci.store import Store
from perfci.store.access import github_bindings
from perfci.store.jobs.run_events import RunEvent, Told
from perfci.store.projects import Project, project

NEVER_RAN = frozenset({"action_required", "skipped", "stale"})
"""Conclusions of runs in which nothing was to be measured: one that waits for an approval is told of when it ran."""

log = logging.getLogger("perfci.github")


def app_of(config: Config) -> App:
    """The GitHub App as it is configured, with a key that can sign."""
    table, pem = config.settings.app, config.secrets.app_private_key.get_secret_value()
    if not pem and not table.key_file:
        raise PerfciError(
            "[app] id names a GitHub App and there is no private key of it: set PERFCI_APP_PRIVATE_KEY, or key_file in "
            "[app], for the process that judges."
        )
    key = Key(table.id, pem or _key_in(config.root / table.key_file))
    key.signed(0)
    return App(key, table.api)


def _key_in(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise PerfciError(f"The private key {path} of the GitHub App cannot be read: {error}") from None


@dataclass(frozen=True)
class Follower:
    """Who acts upon what GitHub told: with the App's key, and on nothing that a pull request wrote."""

    store: Store
    app: App
    settings: Settings

    def __call__(self, event: RunEvent, now: datetime) -> str:
        """Do it, and answer why there was nothing to do; to do it twice writes nothing twice."""
        with self.store.read() as tx:
            of, bound = project(tx, event.project), github_bindings.repository_of(tx, event.project_id)
        if of is None or of.archived or bound is None:
            return "The project is archived, or bound to no repository any more."
        told, client = event.told, self.app.client(event.told.installation, [bound.repository_id])
        if told.action == MERGED:
            return take_announced(self.store, client, told, of, bound, now)
        ran = _run_of(client, told)
        if ran is None:
            return "No results of the newest commit are kept: they have to be measured again."
        if not is_bound_run(ran, bound):
            return "The project is bound to another repository or workflow by now."
        if (told.action in BEGUN) == (ran.status == "completed"):
            return f"The run is {ran.status} by now, which GitHub tells by itself."
        try:
            return self._follow(
                client, ran, told.action in BEGUN, of, AuditContext(actor_of(of, ran), now, told.delivery)
            )
        except Overtaken as gone:
            return str(gone)

    def _follow(self, client: Client, ran: WorkflowRun, begun: bool, of: Project, act: AuditContext) -> str:
        repository = ran.repository.full_name
        pulls = [Pull(repository, one.number, one.base.sha, one.head.sha) for one in pulls_of_run(client, ran)]
        if begun:
            for pull in pulls:
                age(client, self._author, pull, of.slug)
            return ""
        left = _left_by(client, ran)
        if left.handed is None and ran.conclusion in NEVER_RAN:
            return f"Nothing was measured: the run ended as {ran.conclusion}."
        page = self._page(ran, left, of, act)
        for pull in pulls:
            shown, gate = _shown(left, pull, of.slug, ran), self.settings.app.gate
            told = tell(client, self._author, pull, of.slug, shown, gate=gate, page=page, log=ran.log_url)
            log.info("%s#%d is told: %s", repository, pull.number, ", ".join(told.written) or "nothing new")
        return ""

    def _page(self, ran: WorkflowRun, left: Left, of: Project, act: AuditContext) -> str:
        """Where the comparison is shown, once it is stored; nowhere, where nothing of it could be."""
        here, refused = take_in(self.store, of, ran, left.runs, act)
        if refused:
            what = f"{len(refused)} of its documents or sessions are not stored, {refused[0]}"
            log.warning("run %d of %s: %s", ran.id, ran.repository.full_name, what)
        if not here or left.handed is None or left.handed.findings is None:
            return ""
        return page_of(self.settings.server.public_url, replace(left.handed, project=of.slug))

    @cached_property
    def _author(self) -> Author:
        return self.app.author()


def _run_of(client: Client, told: Told) -> WorkflowRun | None:
    """The run as it is now, for what was told may be old; of a pull request the one that measured its newest commit."""
    if told.action != ACCEPTED:
        return client.workflow_run(told.repository, told.number)
    head = client.pull(told.repository, told.number).head.sha
    found = newest_of_commit(client, told.repository, head)
    measured_by = found.workflow_run.id if found and found.workflow_run else None
    return None if measured_by is None else client.workflow_run(told.repository, measured_by)


def _left_by(client: Client, ran: WorkflowRun) -> Left:
    """The newest artifact of a run; one that cannot be read is no reason to ask again."""
    repository = ran.repository.full_name
    newest = newest_of_run(client, repository, ran.id)
    if newest is None:
        return Left()
    try:
        return left_in(client, repository, newest, ran.head_sha)
    except (Refused, Unanswered, Unreachable):
        raise
    except PerfciError as error:
        log.warning("run %d of %s: %s", ran.id, repository, error)
        return Left(problem=str(error))


def _shown(left: Left, pull: Pull, key: str, ran: WorkflowRun) -> HandedOver:
    if left.problem:
        sides = Commit(pull.base), Commit(pull.head)
        return HandedOver(key, *sides, ending=NotMeasured.BROKEN, detail=left.problem)
    if left.handed is None:
        return nothing_of(pull, key, ran.conclusion or "")
    return replace(left.handed, project=key)
