"""Choose who measures what is ordered, where nobody says it, and refuse an engine that is not there."""

from __future__ import annotations

from sqlalchemy.orm import Session as Transaction

from perfci.config import Settings
from perfci.model import PerfciError
from perfci.service.orders.check_order_content import (
    BACKFILL,
    BISECT,
    COMPARE,
    GITHUB_ENGINE,
    LOCAL_ENGINE,
    RAY_ENGINE,
)
from perfci.store.access.github_bindings import find_repository_of_project
from perfci.store.projects import Project

NO_GITHUB_ENGINE = (
    "The engine github was asked for, and nothing here carries out its orders: that takes a server that is a "
    "GitHub App ([app] id) and a project that is bound to a workflow (`perfci project bind`). Order it of "
    "the engine local, for `perfci work`."
)

ONLY_PAIRS = (
    "GitHub's runners compare two commits, each job on a runner of its own; a {} stays on one machine. Order "
    "it of the engine local or ray, for `perfci work`."
)

NO_RAY_ENGINE = (
    "The engine ray was asked for, and no cluster is named: set ray_address in [engines] of perfci.toml, "
    "here and where `perfci work --engine ray` runs, or order it of the engine local."
)


def choose_order_engine(tx: Transaction, settings: Settings, project: Project, kind: str = COMPARE) -> str:
    """The engine that is set for this kind of orders, as far as it can carry them out, else a worker."""
    wanted = settings.engines.ranges if kind in (BISECT, BACKFILL) else settings.app.order_engine
    return LOCAL_ENGINE if explain_engine_refusal(tx, settings, project, wanted, kind) else wanted


def require_order_engine(
    tx: Transaction, settings: Settings, project: Project, engine: str, kind: str = COMPARE
) -> None:
    """Raise a sentence where orders of an engine would wait for ever."""
    if problem := explain_engine_refusal(tx, settings, project, engine, kind):
        raise PerfciError(problem)


def explain_engine_refusal(
    tx: Transaction, settings: Settings, project: Project, engine: str, kind: str
) -> str:
    """Say why an engine does not carry out orders of a kind; empty where it does."""
    if engine == GITHUB_ENGINE:
        if not _has_bound_workflow(tx, settings, project):
            return NO_GITHUB_ENGINE
        return ONLY_PAIRS.format(kind) if kind in (BISECT, BACKFILL) else ""
    if engine == RAY_ENGINE and not settings.engines.ray_address:
        return NO_RAY_ENGINE
    return ""


def _has_bound_workflow(tx: Transaction, settings: Settings, project: Project) -> bool:
    bound = find_repository_of_project(tx, project.id) if settings.app.id else None
    return bound is not None and bool(bound.workflow)
