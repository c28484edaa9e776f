"""Muted benchmarks: their incidents are recorded and notify nobody."""

from __future__ import annotations

from sqlalchemy.orm import Session

from perfci.auth.permissions import AccessRequirement
from perfci.net.api_schemas import muted_benchmarks as shapes
from perfci.service.incidents.mute_benchmarks import set_benchmark_mute
from perfci.store.incidents.expected_changes_and_muted_benchmarks import load_mutes
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply


def list_muted_benchmarks(call: Call) -> Reply:
    with call.store.read() as tx:
        return Reply(_muted_page(tx, call))


def mute_or_unmute_benchmark(call: Call) -> Reply:
    request: shapes.MuteChange = call.body

    def write(tx: Session) -> shapes.MutedBenchmarkPage:
        set_benchmark_mute(
            tx,
            call.required_project,
            request.benchmark,
            request.metric,
            call.audit_context,
            days=request.days,
            reason=request.reason,
        )
        return _muted_page(tx, call)

    return Reply(call.group_commit.submit(write))


def _muted_page(tx: Session, call: Call) -> shapes.MutedBenchmarkPage:
    names = shapes.MutedBenchmarkShape.model_fields
    mutes = load_mutes(tx, call.required_project.id, call.audit_context.at)
    return shapes.MutedBenchmarkPage(
        items=tuple(
            shapes.MutedBenchmarkShape(**{name: getattr(mute, name) for name in names}) for mute in mutes
        )
    )


OPERATIONS = (
    Operation(
        "list_muted_benchmarks",
        "GET",
        f"{PROJECT_RULE}/muted-benchmarks",
        AccessRequirement.READ,
        list_muted_benchmarks,
        "Muted benchmarks: their incidents notify nobody",
        answers={200: shapes.MutedBenchmarkPage},
    ),
    Operation(
        "set_muted_benchmark",
        "PUT",
        f"{PROJECT_RULE}/muted-benchmarks",
        AccessRequirement.TRIAGE,
        mute_or_unmute_benchmark,
        "Mute or unmute a benchmark",
        body=shapes.MuteChange,
        answers={200: shapes.MutedBenchmarkPage},
    ),
)
