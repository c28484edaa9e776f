"""How long a thousand incidents with fifty thousand series take: ``python -m tools.bench_incidents
[KIND...]``.

Each figure is the middle one of some, with the slowest beside it. ``sqlite`` and ``postgresql`` are the
kinds.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path

from sqlalchemy.orm import Session

from perfci.model import ChangePoint, IncidentState
from perfci.service.incidents.incident_update_rules import IncidentUpdate
from perfci.service.incidents.reconcile_incidents import reconcile_incidents
from perfci.service.incidents.triage import update_incidents
from perfci.store import Store, open_store
from perfci.store.incidents.incident_lists import list_incidents
from perfci.store.verdicts_and_change_points import save_change_points
from perfci.store.writes.find_or_add_rows import ensure_series_ids
from perfci.verdicts.judging_policy import Policy
from perfci_web import create_app
from tests.support.builders import NOON, a_commit, a_series, a_sha, acting_as
from tests.support.databases import KINDS, fresh_database
from tests.support.evaluations import a_budgeted_incident, a_project, an_evaluation, measured_project

INCIDENTS, MEMBERS, BULK = 1000, 50, 500
READS = ("overview", "list page", "one page", "list API", "one API")
BUDGET_MS = {**dict.fromkeys(READS, 100.0), "bulk of 500": 1000.0}
OVERVIEW = "/acme:model/"
PROJECT = "/acme:model/incidents"
API = "/api/v1/projects/acme:model/incidents"


def store_many_incidents(store: Store) -> None:
    """Every series takes part in one incident; every third incident asks for a person."""
    line = [a_commit(number) for number in range(2 * INCIDENTS + 2, 0, -1)]
    results = []
    for number in range(INCIDENTS):
        at = 2 + 2 * number
        moves = [
            ChangePoint(
                a_series(f"suite{number % 40}.Bench{number}.time_it", parameters={"n": str(k)}),
                a_sha(at),
                a_sha(at - 1),
                1.0,
                1.1 + k / 1000,
            )
            for k in range(MEMBERS)
        ]
        results.append(
            a_budgeted_incident(f"incident{number}", *moves, good=at - 1, bad=at, ongoing=number % 3 == 0)
        )
    project, seen = measured_project(store, *results), an_evaluation(*results[::-1], commits=line)
    with store.begin() as tx:
        moves = [member for seen in results for member in seen.incident.members]
        series_ids = ensure_series_ids(tx, project.id, [move.series for move in moves])
        save_change_points(tx, {row_id: [move] for row_id, move in zip(series_ids, moves, strict=True)})
    for about, now in (("finds all", NOON), ("changes nothing", NOON + timedelta(hours=1))):
        held: list[float] = []
        wall, cpu = time_call(
            partial(
                reconcile_incidents,
                store,
                project,
                Policy(),
                seen,
                now,
                partial(time_write_transaction, store, held),
            )
        )
        locked = f"the write lock for {max(held) * 1000:.0f} ms of CPU at most"
        print(f"  a look that {about}: {wall / 1000:.2f} s, of which CPU here {cpu / 1000:.2f}; {locked}")


def analyze_tables(store: Store) -> None:
    """What a server in use does by itself within a minute: without it PostgreSQL plans for tables of a few
    rows.
    """
    with store.begin() as tx:
        if tx.get_bind().dialect.name == "postgresql":
            tx.connection().exec_driver_sql("ANALYZE")


@contextlib.contextmanager
def time_write_transaction(store: Store, held: list[float]) -> Iterator[Session]:
    """A write transaction, and for how much CPU time it kept others waiting."""
    with store.begin() as tx:
        begun = time.process_time()
        yield tx
    held.append(time.process_time() - begun)


Took = tuple[float, float]
"""Milliseconds on the wall, and of this process's CPU: on a busy machine only the latter tells of the
program.
"""


def time_repeatedly(ask: Callable[[], object], times: int = 15) -> list[Took]:
    ask()
    return [time_call(ask) for _ in range(times)]


def time_call(ask: Callable[[], object]) -> Took:
    wall, cpu = time.perf_counter(), time.process_time()
    ask()
    return (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000


def time_bulk_updates(store: Store) -> list[Took]:
    """Five hundred change their state, and back."""
    project, took = a_project(store), []

    def together(seen: dict[int, int], state: IncidentState) -> None:
        with store.begin() as tx:
            incidents = update_incidents(
                tx, project, seen, IncidentUpdate(state, reason="together"), acting_as("local", NOON)
            )
        assert len(incidents.changed) == BULK, incidents

    for state in (IncidentState.INVESTIGATING, IncidentState.CULPRIT_FOUND) * 3:
        with store.read() as tx:
            seen = {
                incident.number: incident.revision for incident in list_incidents(tx, project.id, limit=BULK)
            }
        took.append(time_call(partial(together, seen, state)))
    return took


def measure_incident_store(kind: str, url: str) -> dict[str, list[Took]]:
    with closing(open_store(url, create=False)) as store:
        begun = time.perf_counter()
        store_many_incidents(store)
        analyze_tables(store)
        took = time.perf_counter() - begun
        print(f"{kind}: {INCIDENTS:,} incidents of {MEMBERS} series each, {took:.1f} s to load", flush=True)
        client = create_app(store, read_only=False, clock=lambda: NOON + timedelta(days=1)).test_client()

        def get(path: str) -> None:
            assert client.get(path).status_code == 200, path

        figures = {
            "overview": time_repeatedly(lambda: get(OVERVIEW)),
            "list page": time_repeatedly(lambda: get(PROJECT)),
            "one page": time_repeatedly(lambda: get(f"{PROJECT}/{INCIDENTS // 2}")),
            "list API": time_repeatedly(lambda: get(f"{API}?limit=100")),
            "one API": time_repeatedly(lambda: get(f"{API}/{INCIDENTS // 2}")),
            "bulk of 500": time_bulk_updates(store),
        }
        client.application.extensions["perfci"].group_commit.close()
        return figures


def main(kinds: list[str]) -> int:
    over = 0
    for kind in kinds or KINDS:
        with tempfile.TemporaryDirectory() as folder, fresh_database(kind, Path(folder)) as url:
            figures = measure_incident_store(kind, url)
        for name, took in figures.items():
            wall, cpu = (statistics.median(item) for item in zip(*took, strict=True))
            over += wall > BUDGET_MS[name]
            print(
                f"  {name}: {wall:.0f} ms, of which CPU here {cpu:.0f} (budget {BUDGET_MS[name]:.0f})",
                flush=True,
            )
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
