"""Jobs elsewhere: which repository's may write to a project, and the tokens they are given."""

from __future__ import annotations

from perfci.auth.permissions import Need
from perfci.net.jwks import Unanswered
from perfci.net.shapes.github_jobs import JobToken, NewRepository, RepositoryShape, RunTokenMade
from perfci.service.accounts import repository_bindings
from perfci.service.accounts.job_tokens import exchange, expected_of
from perfci.service.audit_context import AuditContext
from perfci.store.access import github_bindings
from perfci.store.access.github_bindings import Repository
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation
from perfci_web.api.problems import Declined

NOT_BOUND = "This project is bound to no repository."


def exchange_token(call: Call) -> Reply:
    asked: JobToken = call.body
    try:
        made = exchange(
            call.group, call.key_of, expected_of(call.settings), asked.project, asked.token,
            now=call.now, request_id=call.request_id,
        )  # fmt: skip
    except Unanswered as error:
        raise Declined("unavailable", str(error), headers={"Retry-After": "5"}) from error
    told = RunTokenMade(text=made.text, expires_at=made.token.expires_at, baseline=made.token.baseline)
    return Reply(told, 201)


def get_repository(call: Call) -> Reply:
    with call.store.read() as tx:
        found = github_bindings.repository_of(tx, call.the_project.id)
    if found is None:
        raise Declined("not-found", NOT_BOUND)
    return Reply(_shape(found))


def bind_repository(call: Call) -> Reply:
    asked: NewRepository = call.body
    wanted = repository_bindings.repository(
        asked.repository, asked.repository_id, asked.owner_id, asked.workflow, asked.environment or "", asked.refs
    )
    call.group.submit(lambda tx: repository_bindings.bind(tx, _act(call), call.the_project, wanted))
    return Reply(_shape(wanted))


def unbind_repository(call: Call) -> Reply:
    if not call.group.submit(lambda tx: repository_bindings.unbind(tx, _act(call), call.the_project)):
        raise Declined("not-found", NOT_BOUND)
    return Reply(None)


def _act(call: Call) -> AuditContext:
    return AuditContext(call.actor, call.now, call.request_id)


def _shape(found: Repository) -> RepositoryShape:
    return RepositoryShape(
        repository=found.slug, repository_id=found.repository_id, owner_id=found.owner_id, workflow=found.workflow,
        environment=found.environment, refs=found.refs,
    )  # fmt: skip


OPERATIONS = (
    Operation(
        "exchange_token", "POST", "/oidc/token", Need.PUBLIC, exchange_token,
        "Give a job of GitHub Actions a token for what it measured, against what GitHub signed of it",
        body=JobToken, answers={201: RunTokenMade},
    ),
    Operation(
        "get_repository", "GET", "/projects/<project:project>/repository", Need.ADMIN, get_repository,
        "The repository whose jobs may upload", answers={200: RepositoryShape},
    ),
    Operation(
        "bind_repository", "PUT", "/projects/<project:project>/repository", Need.ADMIN, bind_repository,
        "Let the jobs of a repository upload, in the place of those before",
        body=NewRepository, answers={200: RepositoryShape},
    ),
    Operation(
        "unbind_repository", "DELETE", "/projects/<project:project>/repository", Need.ADMIN, unbind_repository,
        "Let no jobs upload any more; the tokens they were given end", answers={204: None},
    ),
)  # fmt: skip
