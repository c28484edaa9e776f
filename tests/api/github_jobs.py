"""A server whose project is bound to a repository, and the jobs of GitHub that ask it for tokens."""

from __future__ import annotations

from typing import Any

from api_client import Api
from werkzeug.test import TestResponse

from perfci.config import Settings
from perfci.model import Role, Run
from perfci.store import Store
from perfci.store.access import audit_log as audit
from perfci.store.projects import find_project
from perfci_web import create_app
from tests.support.builders import PROJECT, a_process, a_result, a_run
from tests.support.signed_job_tokens import AUDIENCE, NOW, OWNER_ID, REPOSITORY_ID, WORKFLOW, signed

BOUND = {
    "repository": "acme/model",
    "repository_id": REPOSITORY_ID,
    "owner_id": OWNER_ID,
    "workflow": WORKFLOW,
    "refs": ["refs/heads/main"],
}
HERE = "/projects/acme:model/repository"
ORIGIN = (("attempt", "1"), ("event", "push"), ("job", "bench"), ("run_id", "4711"))
BASE, HEAD = a_process(role=Role.BASE, pair=0), a_process(role=Role.HEAD, pair=0)


class Jobs(Api):
    """A server whose clock a test may move, and the jobs that ask it."""

    def __init__(self, store: Store) -> None:
        self.store, self.now = store, NOW
        settings = Settings.model_validate({"server": {"public_url": AUDIENCE}})
        super().__init__(create_app(store, read_only=False, clock=lambda: self.now, settings=settings))

    def bind(self, **changes: Any) -> TestResponse:
        return self.client.put(f"/api/v1{HERE}", json=BOUND | changes)

    def exchange(self, claims: dict[str, Any], to: str = PROJECT) -> TestResponse:
        return self.client.post("/api/v1/oidc/token", json={"project": to, "token": signed(claims)})

    def job(self, claims: dict[str, Any]) -> Job:
        answer = self.exchange(claims)
        assert answer.status_code == 201, answer.text
        return Job(self, answer.json["secret"])

    def audit(self, slug: str = PROJECT) -> list[tuple[str, str, str]]:
        with self.store.read() as tx:
            project = find_project(tx, slug)
            return [
                (entry.actor, entry.action, entry.subject)
                for entry in audit.list_entries(tx, project.id if project else -1)
            ][::-1]


class Job:
    def __init__(self, server: Jobs, text: str) -> None:
        self.server, self.text = server, text
        self.headers = {"Authorization": f"Bearer {text}"}

    def send(self, run: Run) -> tuple[int, str]:
        """What is answered to an upload: the status, and what is wrong."""
        answer = self.server.upload(run, **self.headers)
        return answer.status_code, answer.json.get("detail", "")


def measured(*processes: Any, **changes: Any) -> Run:
    return a_run(a_result(None, *(processes or (a_process(1.0),))), **({"origin": ORIGIN} | changes))
