"""Choose who measures what is ordered on a page, where nobody says it."""

from __future__ import annotations

from sqlalchemy.orm import Session as Transaction

from perfci.config import Settings
from perfci.service.orders.check_order_content import LOCAL_ENGINE
from perfci.store.access.github_bindings import find_repository_of_project
from perfci.store.projects import Project


def choose_order_engine(tx: Transaction, settings: Settings, project: Project) -> str:
    """The engine that is set for the App where it knows a workflow of the project, else a worker."""
    bound = find_repository_of_project(tx, project.id) if settings.app.id else None
    return settings.app.order_engine if bound is not None and bound.workflow else LOCAL_ENGINE
