"""Bind a project to the GitHub repository whose jobs may upload to it; each change is audited."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime

from sqlalchemy.orm import Session

from perfci.model import PerfciError
from perfci.service.audit_context import AuditContext
from perfci.store.access import audit_log, github_bindings
from perfci.store.access.github_bindings import BoundRepository, ProjectBinding
from perfci.store.projects import Project

SLUG_PATTERN = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")
WORKFLOW_PATTERN = re.compile(rf"({SLUG_PATTERN.pattern}/)?\.github/workflows/[A-Za-z0-9_.-]{{1,100}}\.ya?ml")
REF_PATTERN = re.compile(r"refs/(heads|tags)/[^\s\x00-\x1f\x7f~^:?*\[\\]{1,200}")
MAX_GITHUB_ID = 10**18

AUDIT_RENAME = "repository.rename"
"""Audit action of a repository that GitHub reports under a new name."""


def build_bound_repository(
    slug: str, repository_id: int, owner_id: int, workflow: str, environment: str, refs: Collection[str]
) -> BoundRepository:
    """Validate and build a repository to bind to; a ref without a prefix is a branch."""
    if not SLUG_PATTERN.fullmatch(slug):
        raise PerfciError(f"A repository is named as OWNER/NAME, not as {slug!r}.")
    if not 0 < repository_id < MAX_GITHUB_ID or not 0 < owner_id < MAX_GITHUB_ID:
        raise PerfciError(
            f"GitHub's numbers were expected: https://api.github.com/repos/{slug} shows id and owner.id."
        )
    if not WORKFLOW_PATTERN.fullmatch(workflow):
        raise PerfciError(
            "A workflow is named by its file, .github/workflows/perf.yml, "
            "or where another repository holds it, "
            f"OWNER/NAME/.github/workflows/perf.yml, not as {workflow!r}."
        )
    if len(environment) > 255 or (environment and not environment.isprintable()):
        raise PerfciError(f"An environment's name was expected, not {environment[:50]!r}.")
    whole = tuple(dict.fromkeys(ref if ref.startswith("refs/") else f"refs/heads/{ref}" for ref in refs))
    if wrong := [ref for ref in whole if not REF_PATTERN.fullmatch(ref)]:
        raise PerfciError(
            f"A branch (main) or a whole ref (refs/tags/v1) was expected, not {wrong[0][:100]!r}."
        )
    return BoundRepository(repository_id, owner_id, slug, workflow, environment, whole)


def bind_repository(
    tx: Session, context: AuditContext, project: Project, repository: BoundRepository, basis: str
) -> None:
    """Bind a project to a repository, in place of the one it was bound to; ``basis`` says what proves that
    the actor may speak for it.
    """
    before = github_bindings.find_repository_of_project(tx, project.id)
    github_bindings.bind_repository(tx, project.id, repository, context.at)
    detail = {
        "before": _build_audit_detail(before) if before else None,
        "after": _build_audit_detail(repository),
        "proof": basis,
    }
    context.add_audit_entry(tx, "repository.bind", repository.slug, project.id, detail)


def unbind_repository(tx: Session, context: AuditContext, project: Project) -> bool:
    """Unbind a project, which ends the access of its jobs; return False if it was not bound."""
    before = github_bindings.find_repository_of_project(tx, project.id)
    if before is None:
        return False
    github_bindings.unbind_repository(tx, project.id)
    context.add_audit_entry(
        tx, "repository.unbind", before.slug, project.id, {"before": _build_audit_detail(before)}
    )
    return True


def update_repository_name(
    tx: Session, binding: ProjectBinding, name: str, at: datetime, request_id: str
) -> None:
    """Update the name of a bound repository; its numeric id identifies it."""
    bound = binding.repository
    if bound.slug == name:
        return
    github_bindings.update_repository_slug(tx, binding.project_id, name)
    audit_log.add_entry(
        tx,
        f"github-repository/{bound.repository_id}",
        AUDIT_RENAME,
        name,
        at=at,
        project_id=binding.project_id,
        detail={"before": bound.slug, "after": name},
        request_id=request_id,
    )


def _build_audit_detail(repository: BoundRepository) -> dict[str, object]:
    return {
        "repository_id": repository.repository_id,
        "owner_id": repository.owner_id,
        "workflow": repository.workflow,
        "environment": repository.environment,
        "refs": list(repository.history_refs),
    }
