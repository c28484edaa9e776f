"""A started session and what was measured in it, as most tests of the store need them."""

from __future__ import annotations

from perfci.model import Process, Run, Series
from perfci.store import Store
from perfci.store.queries import measured_samples
from perfci.store.writes import measured_sessions
from tests.support.builders import NOON, PROJECT, a_run


def started(store: Store, uid: str = "session-1", kind: str = "history", spec_hash: str = "plan") -> None:
    with store.begin() as tx:
        measured_sessions.start_session(tx, PROJECT, uid, kind, spec_hash, 7, 3, NOON)


def measured_run(store: Store, *measured: tuple[Series, Process], run: Run | None = None) -> int:
    with store.begin() as tx:
        run_id = measured_sessions.find_or_add_run(tx, run or a_run())
        measured_sessions.add_process_measurements(tx, run_id, measured)
    return run_id


def stored_processes(store: Store, uid: str = "session-1") -> list[Process]:
    with store.read() as tx:
        return [
            session_process.process for session_process in measured_samples.load_session_processes(tx, uid)
        ]
