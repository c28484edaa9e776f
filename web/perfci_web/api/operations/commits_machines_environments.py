"""Commits of a project, and the machines and environments that measured them."""

from __future__ import annotations

from sqlalchemy.orm import Session

from perfci.auth.permissions import AccessRequirement
from perfci.model import Commit, Machine
from perfci.net.api_schemas import PageQuery
from perfci.net.api_schemas.commits_machines_environments import (
    CommitPage,
    CommitQuery,
    CommitShape,
    EnvironmentPage,
    EnvironmentShape,
    MachinePage,
    MachineShape,
)
from perfci.store.queries import (
    paged_lists,
    series_commits_machines,
)
from perfci_web.api import pagination
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply
from perfci_web.api.problem_details import ProblemError


def list_commits(call: Call) -> Reply:
    query: CommitQuery = call.query
    with call.store.read() as tx:
        rows = paged_lists.load_commits_page(
            tx,
            call.required_project.id,
            branch=query.branch,
            before=pagination.parse_cursor(query.cursor),
            limit=query.limit + 1,
        )
    return pagination.build_page_reply(
        CommitPage, rows, query.limit, lambda row: row[0], lambda row: build_commit_payload(row[1])
    )


def get_commit(call: Call) -> Reply:
    with call.store.read() as tx:
        return Reply(build_commit_payload(require_commit(tx, call, call.path["sha"])))


def list_machines(call: Call) -> Reply:
    query: PageQuery = call.query
    with call.store.read() as tx:
        rows = paged_lists.load_machines_page(
            tx, call.required_project.id, after=pagination.parse_cursor(query.cursor), limit=query.limit + 1
        )
    return pagination.build_page_reply(
        MachinePage,
        rows,
        query.limit,
        lambda row: row[0],
        lambda row: _build_machine_payload(row[1], row[2]),
    )


def list_environments(call: Call) -> Reply:
    query: PageQuery = call.query
    with call.store.read() as tx:
        rows = paged_lists.load_environments_page(
            tx, call.required_project.id, after=pagination.parse_cursor(query.cursor), limit=query.limit + 1
        )
    return pagination.build_page_reply(
        EnvironmentPage,
        rows,
        query.limit,
        lambda row: row[0],
        lambda row: EnvironmentShape(id=row[1], values=dict(row[2].values)),
    )


def require_commit(tx: Session, call: Call, sha: str) -> Commit:
    """Return the commit of a sha or of the beginning of one."""
    commit = series_commits_machines.find_commit(tx, call.required_project.slug, sha)
    if commit is None:
        raise ProblemError("not-found", "There is no commit of this sha here.")
    return commit


def build_commit_payload(commit: Commit) -> CommitShape:
    fields = {name: getattr(commit, name) for name in CommitShape.model_fields if name != "commit"}
    return CommitShape.model_validate({"commit": commit.sha} | fields)


def _build_machine_payload(identity: str, machine: Machine) -> MachineShape:
    fields = {
        name: getattr(machine, name) for name in MachineShape.model_fields if name not in ("id", "label")
    }
    return MachineShape.model_validate({"id": identity, "label": machine.label} | fields)


OPERATIONS = (
    Operation(
        "list_commits",
        "GET",
        f"{PROJECT_RULE}/commits",
        AccessRequirement.READ,
        list_commits,
        "Commits, latest first",
        query=CommitQuery,
        answers={200: CommitPage},
        etag=True,
    ),
    Operation(
        "get_commit",
        "GET",
        f"{PROJECT_RULE}/commits/<name:sha>",
        AccessRequirement.READ,
        get_commit,
        "One commit, by its sha or a part",
        answers={200: CommitShape},
        etag=True,
    ),
    Operation(
        "list_machines",
        "GET",
        f"{PROJECT_RULE}/machines",
        AccessRequirement.READ,
        list_machines,
        "Machine classes that measured here",
        query=PageQuery,
        answers={200: MachinePage},
        etag=True,
    ),
    Operation(
        "list_environments",
        "GET",
        f"{PROJECT_RULE}/environments",
        AccessRequirement.READ,
        list_environments,
        "Environments observed here",
        query=PageQuery,
        answers={200: EnvironmentPage},
        etag=True,
    ),
)
