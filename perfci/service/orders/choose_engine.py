"""Choose who measures what is ordered, where nobody says it, and refuse an engine that is not there."""

from __future__ import annotations

from sqlalchemy.orm import Session as Transaction

from perfci.config import Settings
from perfci.model import PerfciError
from perfci.service.orders.check_order_content import GITHUB_ENGINE, LOCAL_ENGINE
from perfci.store.access.github_bindings import find_repository_of_project
from perfci.store.projects import Project

NO_GITHUB_ENGINE = (
    "The engine github was asked for, and nothing here carries out its orders: that takes a server that is a "
    "GitHub App ([app] id) and a project that is bound to a workflow (`perfci project bind`). Order it of "
    "the engine local, for `perfci work`."
)


def choose_order_engine(tx: Transaction, settings: Settings, project: Project) -> str:
    """The engine that is set for the App where it knows a workflow of the project, else a worker."""
    return settings.app.order_engine if _has_bound_workflow(tx, settings, project) else LOCAL_ENGINE


def require_order_engine(tx: Transaction, settings: Settings, project: Project, engine: str) -> None:
    """Raise a sentence where orders of an engine would wait for ever."""
    if engine == GITHUB_ENGINE and not _has_bound_workflow(tx, settings, project):
        raise PerfciError(NO_GITHUB_ENGINE)


def _has_bound_workflow(tx: Transaction, settings: Settings, project: Project) -> bool:
    bound = find_repository_of_project(tx, project.id) if settings.app.id else None
    return bound is not None and bool(bound.workflow)
