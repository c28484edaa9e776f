"""What the pages and the API of one application share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

from flask import current_app, request

from perfci.auth.permissions import AccessRequirement, Actor, decide_access
from perfci.config import Settings
from perfci.project_policies import LoadPolicies
from perfci.store import Store
from perfci.store.projects import Project
from perfci.store.writes.group_commit import GroupCommitter
from perfci_web.api.rate_limit import RateLimiter
from perfci_web.authentication.authenticator import Authenticator

EXTENSION_KEY = "perfci"


@dataclass(frozen=True, slots=True)
class WebContext:
    """The store, the clock and the writer of an application, how it identifies callers and judges projects,
    and how many requests it takes of each.
    """

    store: Store
    clock: Callable[[], datetime]
    load_policies: LoadPolicies
    authenticator: Authenticator
    group_commit: GroupCommitter
    request_limiter: RateLimiter
    settings: Settings = field(default_factory=Settings)


def web_context() -> WebContext:
    """Return the context of the application that serves the current request."""
    return cast(WebContext, current_app.extensions[EXTENSION_KEY])


def current_actor() -> Actor:
    """Return the caller of the current request."""
    return web_context().authenticator.identify_caller(request)


def may_export() -> bool:
    """Whether the caller of the current request may take exports, which cost more than a page."""
    return web_context().settings.access.public_exports or current_actor().kind != "anonymous"


def may_triage(project: Project) -> bool:
    """Whether the caller of the current request may change incidents and marks of a project."""
    return decide_access(current_actor(), project, AccessRequirement.TRIAGE).allowed
