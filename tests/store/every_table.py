"""A database with a row in every table."""

from __future__ import annotations

import importlib

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import (
    Clock,
    GoalClauseRecord,
    GoalRecord,
    Interval,
    Stage,
    VariantComparisonRecord,
    VariantNumericsRecord,
    VariantStepRecord,
)
from perfci.store import (
    open_store,
    verdict_decision_records,
    verdicts_and_change_points,
)
from perfci.store.chart_notes import add_chart_note
from perfci.store.explanations import NewProfile, ProfilePart, add_explanation, add_profile
from perfci.store.series_archive import archive_series
from perfci.store.tables.access import AuditRow, SecretRow
from perfci.store.tables.github import RepositoryRow, RunEventRow, RunTokenRow, UsedTokenRow
from perfci.store.tables.incidents import (
    EvaluationRow,
    ExpectedChangeRow,
    ImpactRow,
    IncidentEventRow,
    IncidentMemberRow,
    IncidentRow,
    MutedBenchmarkRow,
    ReportingScheduleRow,
)
from perfci.store.tables.measurement_orders import MeasurementOrderRow, OrderRequestRow
from perfci.store.tables.measurements import (
    CommitRow,
    InvalidMarkRow,
    MachineRow,
    ProjectRow,
    RunRow,
    SeriesRow,
    UnresolvedResultRow,
)
from perfci.store.tables.notifications import DeliveryRow, DestinationRow
from perfci.store.tables.series_points import PointBlockRow, SeriesPointsRow
from perfci.store.tables.short_links import ShortLinkRow
from perfci.store.tables.work_queue_and_leases import LeaseRow, OutboxRow
from perfci.store.verdict_decision_records import DecisionRecord
from perfci.store.writes.variant_comparisons import add_goals, add_variant_comparison
from tests.support.builders import (
    NOON,
    PROJECT,
    a_change_point,
    a_process,
    a_result,
    a_run,
    a_series,
    a_verdict,
)
from tests.support.stored_runs import ingest_run, replace_change_points

RENAMED = importlib.import_module("perfci.store.migrations.versions.0016_rename_to_standard_terms")

ORDERED = {
    "kind": "compare",
    "base_sha": "a" * 40,
    "head_sha": "b" * 40,
    "bench": "step",
    "pairs": 8,
    "suite": "",
    "engine": "local",
    "dedupe_key": "2" * 64,
    "state": "queued",
}


def a_profile() -> NewProfile:
    """A profile with a part and three small files."""
    return NewProfile(
        "b" * 40,
        "train.step",
        "setup",
        {"torch": "2.13.0"},
        0.02,
        0.01,
        [ProfilePart("phase", "forward", 0.01, 1.0)],
        b"tree",
        b"tables",
        b"trace",
    )


def fill(url: str) -> None:
    """Add a row to every table and, where a word is stored, one with the word that a migration renames."""
    store = open_store(url, create=False)
    measured = a_result(
        a_series(),
        a_process(1.0, 2.0),
        a_process(3.0, index=1, clock=Clock.INFORMATIONAL),
    )
    with store.begin() as tx:
        ingest_run(tx, a_run(measured), "key", "body")
        screened, confirmed = a_verdict(stage=Stage.SCREENING), a_verdict()
        verdict_ids = verdicts_and_change_points.add_verdicts(
            tx, PROJECT, "session-1", [screened, confirmed], NOON
        )
        record = DecisionRecord("pairs", {"bar": 0.05, "subject": "time"}, 0, ())
        verdict_decision_records.add_verdict_decision_records(tx, {verdict_ids[0]: record})
        replace_change_points(tx, PROJECT, a_series(), [a_change_point()])
        project_id = tx.scalar(sa.select(ProjectRow.id))
        series_id, run_id = tx.scalar(sa.select(SeriesRow.id)), tx.scalar(sa.select(RunRow.id))
        machine_id = tx.scalar(sa.select(MachineRow.id))
        tx.add(OutboxRow(project_id=project_id, kind="judge", subject="key", created_at=NOON))
        tx.add(OutboxRow(project_id=project_id, kind="evaluate", subject="expected_changes", created_at=NOON))
        tx.add(LeaseRow(name="judge", holder="one", token=3, beat=1))
        tx.add(
            AuditRow(at=NOON, actor="local", action="token.create", subject="one", detail={}, request_id="")
        )
        incident_id = _add_incident(tx, project_id, series_id)
        _add_access(tx, project_id, incident_id)
        tx.add(
            ExpectedChangeRow(
                project_id=project_id,
                sha="a" * 40,
                match="peak_bytes",
                change=0.03,
                reason="the cache",
                source="#12",
                merged_at=NOON,
                recorded_by="github",
                recorded_at=NOON,
            )
        )
        muted = {"benchmark": "training.Step", "metric": "time", "rate": 0.5, "reason": "noisy"}
        tx.add(
            MutedBenchmarkRow(
                project_id=project_id, since=NOON, expires_at=NOON, unmuted_at=NOON, actor="ada", **muted
            )
        )
        unresolved = {
            "format": "asv",
            "metric": "size",
            "document": {"found": "MB"},
            "reason": "unknown unit",
        }
        tx.add(UnresolvedResultRow(project_id=project_id, run_id=run_id, created_at=NOON, **unresolved))
        marked = {"reason": "a shared machine", "marked_by": "ada", "marked_at": NOON}
        tx.add(InvalidMarkRow(project_id=project_id, run_id=run_id, series_id=series_id, **marked))
        commit_id = tx.scalar(sa.select(CommitRow.id))
        described = {"judged": True, "commits": 1, "failures": 0, "last_status": "ok", "last_reason": ""}
        tx.add(
            SeriesPointsRow(
                series_id=series_id,
                project_id=project_id,
                result_id=1,
                last_commit_id=commit_id,
                level=1.0,
                stale=True,  # as an upgrade leaves it
                **described,
            )
        )
        shared = {"code": "abcdefgh", "target": "/acme:model/", "created_by": "ada", "created_at": NOON}
        tx.add(ShortLinkRow(project_id=project_id, **shared))
        _add_variants(tx)
        archive_series(tx, project_id, [series_id], "retired", by="ada", at=NOON)
        add_profile(tx, project_id, a_profile(), at=NOON)
        add_explanation(
            tx,
            project_id,
            base="a" * 40,
            head="b" * 40,
            cell="train.step",
            metric="time",
            conclusion="explained",
            document={"sentence": "It grew."},
            at=NOON,
        )
        add_chart_note(tx, project_id, "a" * 40, series_id, "new driver", author="ada", at=NOON)
        tx.add(PointBlockRow(series_id=series_id, block=0, levels=b"\0" * 17, details=b"\0" * 33))
        scheduled = {
            "suite": "benchmarks",
            "branch": "main",
            "every_s": 86400.0,
            "set_by": "ada",
        }
        tx.add(
            ReportingScheduleRow(
                project_id=project_id,
                machine_id=machine_id,
                series=3,
                muted=False,
                last_run_at=NOON,
                **scheduled,
            )
        )
        tx.add(
            EvaluationRow(
                project_id=project_id, evaluated_at=NOON, pages_per_week=5, retests=[{"base": "a"}], creeps=[]
            )
        )
    store.close()


def _add_variants(tx: Session) -> None:
    steps = (
        VariantStepRecord("training.Step", (), "attn=sdpa"),
        VariantStepRecord(
            "training.Step",
            (),
            "attn=flash",
            "attn=sdpa",
            (a_verdict(),),
            numerics=(VariantNumericsRecord("loss", "agrees", "loss is 2.2 against 2.2"),),
        ),
    )
    about = ("a" * 40, "session-1", NOON)
    add_variant_comparison(tx, PROJECT, VariantComparisonRecord("vary", "attn=sdpa,flash", *about, steps))
    clauses = (GoalClauseRecord("time <= 0.9x", "met", a_series(), 0.8, Interval(0.7, 0.85)),)
    add_goals(tx, PROJECT, [GoalRecord("fast", "", "met", "", "a" * 40, *about, clauses)])


def _add_incident(tx: Session, project_id: int, series_id: int) -> int:
    detail = {new: old for old, new in RENAMED.KEYS["incidents", "detail"].items()} | {"week": 1}
    empty = dict.fromkeys(("derived_id", "last_good", "commit", "headline"), "")
    words = {"kind": "data", "state": "new", "severity": 0.5, "disposition": "page", "ongoing": True}
    seen = {"first_seen": NOON, "changed_at": NOON, "series_count": 1}
    row = IncidentRow(project_id=project_id, number=1, detail=detail, **empty, **words, **seen)
    tx.add(row)
    tx.flush()
    moved = {"commit": "b" * 40, "relative_change": 0.1, "before": 1.0, "after": 1.1}
    tx.add(IncidentMemberRow(incident_id=row.id, series_id=series_id, last_good="", added_by="ada", **moved))
    tx.add(
        ImpactRow(
            project_id=project_id,
            series_id=series_id,
            incident_id=row.id,
            recorded_at=NOON,
            accepted=True,
            **moved,
        )
    )
    for action in ("expected", "move_boundary", "note"):
        tx.add(
            IncidentEventRow(
                incident_id=row.id, at=NOON, actor="ada", action=action, before="", after="", text=""
            )
        )
    return row.id


def _add_access(tx: Session, project_id: int, incident_id: int) -> None:
    named = {"slug": PROJECT, "workflow": ".github/workflows/perf.yml", "refs": ["refs/heads/main"]}
    tx.add(RepositoryRow(project_id=project_id, repository_id=2**40, owner_id=7, bound_at=NOON, **named))
    tx.add(UsedTokenRow(hash="0" * 64, expires_at=NOON))
    job = {"run_id": "1", "attempt": 1, "sha": "a" * 40, "event": "push", "baseline": True}
    tx.add(RunTokenRow(uid="0" * 12, secret_hash="1" * 64, project_id=project_id, expires_at=NOON, **job))
    event = {"delivery": "d", "installation": 2**40, "repository": PROJECT, "number": 2**40}
    waiting = {"action": "completed", "received_at": NOON, "state": "waiting", "not_before": NOON}
    tx.add(RunEventRow(project_id=project_id, **event, **waiting))
    order = MeasurementOrderRow(
        project_id=project_id, created_at=NOON, result={"verdict": "unchanged"}, **ORDERED
    )
    tx.add(order)
    tx.flush()
    tx.add(
        OrderRequestRow(
            project_id=project_id, order_id=order.id, requested_at=NOON, requested_by="ada", source="cli"
        )
    )
    tx.add(SecretRow(name="seal", value=b"key", created_at=NOON))
    destination = DestinationRow(project_id=project_id, name="chat", kind="webhook", address="https://x")
    tx.add(destination)
    tx.flush()
    tx.add(
        DeliveryRow(
            uid="1" * 32,
            destination_id=destination.id,
            incident_id=incident_id,
            state_number=1,
            not_before=NOON,
            state="waiting",
            body={"number": 1, "candidate_commits": ["b: Ä"]},
        )
    )
