"""What the pages and the API of one application share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from flask import current_app

from perfci.policies import LoadPolicies
from perfci.store import Store
from perfci.store.writes.group_commit import GroupCommitter
from perfci_web.authentication.authenticator import Authenticator

EXTENSION_KEY = "perfci"


class LazyGroupCommit:
    """The writer thread of this process, started by the first request that writes.

    It starts late because threads do not survive a fork: one from before it would exist in no worker.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._group: GroupCommitter | None = None
        self._lock = threading.Lock()

    def __call__(self) -> GroupCommitter:
        with self._lock:
            if self._group is None:
                self._group = GroupCommitter(self._store)
            return self._group

    def close(self) -> None:
        """Store what waits; a server calls this when it ends."""
        with self._lock:
            if self._group is not None:
                self._group.close()


@dataclass(frozen=True, slots=True)
class WebContext:
    """The store, the clock and the writer of an application, and how it identifies callers and judges
    projects.
    """

    store: Store
    clock: Callable[[], datetime]
    load_policies: LoadPolicies
    authenticator: Authenticator
    group_commit: LazyGroupCommit


def web_context() -> WebContext:
    """Return the context of the application that serves the current request."""
    return cast(WebContext, current_app.extensions[EXTENSION_KEY])
