"""Serialize projects, tokens and members for the API, shared by the command line and the server."""

from __future__ import annotations

from perfci.net.api_schemas.projects_and_access import ProjectMemberShape, ProjectShape, TokenShape
from perfci.store.access import api_tokens as tokens
from perfci.store.access import users_and_roles
from perfci.store.projects import Project


def serialize_project(stored: Project) -> ProjectShape:
    """Build the API representation of a project."""
    fields = {name: getattr(stored, name) for name in ("visibility", "version", "archived", "settings")}
    return ProjectShape.model_validate({"project": stored.slug} | fields)


def serialize_token(token: tokens.Token) -> TokenShape:
    """Build the API representation of a token, without its secret."""
    return TokenShape.model_validate({name: getattr(token, name) for name in TokenShape.model_fields})


def serialize_member(member: users_and_roles.ProjectMember) -> ProjectMemberShape:
    """Build the API representation of a member."""
    return ProjectMemberShape.model_validate(
        {"member": member.user.external_identity, "name": member.user.name, "role": member.role}
    )
