"""Projects: listed and created."""

from __future__ import annotations

from perfci.auth.permissions import AccessRequirement, can_read
from perfci.config import check_project_name
from perfci.net.api_schemas.projects_and_access import NewProject, ProjectPage, ProjectShape
from perfci.service.accounts.projects_members_tokens import create_audited_project
from perfci.service.accounts.serialize_accounts import serialize_project
from perfci.store.projects import load_projects
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply


def list_projects(call: Call) -> Reply:
    with call.store.read() as tx:
        projects = [project for project in load_projects(tx) if can_read(call.audit_context.actor, project)]
    return Reply(ProjectPage(items=tuple(map(serialize_project, projects))))


def get_project(call: Call) -> Reply:
    return Reply(serialize_project(call.required_project))


def create_project(call: Call) -> Reply:
    request: NewProject = call.body
    name = check_project_name(request.project)
    project = call.group_commit.submit(
        lambda tx: create_audited_project(tx, call.audit_context, name, request.visibility)
    )
    return Reply(serialize_project(project), 201)


OPERATIONS = (
    Operation(
        "list_projects",
        "GET",
        "/projects",
        AccessRequirement.PUBLIC,
        list_projects,
        "The projects you may see, by name",
        answers={200: ProjectPage},
    ),
    Operation(
        "create_project",
        "POST",
        "/projects",
        AccessRequirement.SERVER,
        create_project,
        "Add a project",
        body=NewProject,
        answers={201: ProjectShape},
    ),
    Operation(
        "get_project",
        "GET",
        PROJECT_RULE,
        AccessRequirement.READ,
        get_project,
        "One project",
        answers={200: ProjectShape},
        etag=True,
    ),
)
