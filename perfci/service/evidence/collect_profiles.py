"""Collect the profiles of the two commits of an incident, with their traces, and what they explained."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from sqlalchemy.orm import Session as Transaction

from perfci.formats.evidence.evidence_schema import EvidenceExplanationPart, EvidenceProfilePart
from perfci.store.explanations import (
    StoredProfile,
    list_profiled_cells,
    load_explanations,
    load_profile_parts,
    load_profiles,
    load_trace,
)

MAX_PROFILES = 3
"""Newest profiles of a cell at a commit."""

MAX_TRACE_BYTES = 64 * 2**20
"""Of all traces of a bundle: what does not fit is left out."""


def collect_explanations(
    tx: Transaction, project_id: int, ranges: Iterable[tuple[str, str]], cells: Collection[str]
) -> list[EvidenceExplanationPart]:
    """The newest explanation of each cell and metric, between these pairs of commits."""
    return [
        EvidenceExplanationPart(
            base=stored.base,
            head=stored.head,
            cell=stored.cell,
            metric=stored.metric,
            conclusion=stored.conclusion,
            created_at=stored.created_at,
            document=dict(stored.document),
        )
        for base, head in ranges
        for stored in load_explanations(tx, project_id, base, head)
        if stored.cell in cells
    ]


def collect_profiles(
    tx: Transaction, project_id: int, shas: Iterable[str], cells: Collection[str]
) -> tuple[list[EvidenceProfilePart], dict[str, bytes]]:
    """The newest profiles of cells at some commits, and their traces by the name of a file."""
    parts: list[EvidenceProfilePart] = []
    traces: dict[str, bytes] = {}
    left = MAX_TRACE_BYTES
    for profile in _load_profiles(tx, project_id, shas, cells):
        trace, name = load_trace(tx, profile.id), None
        if trace is not None and len(trace) <= left:
            name, left = f"trace-{len(traces) + 1}.json", left - len(trace)
            traces[name] = trace
        parts.append(_build_profile(tx, profile, name))
    return parts, traces


def _load_profiles(
    tx: Transaction, project_id: int, shas: Iterable[str], cells: Collection[str]
) -> Iterator[StoredProfile]:
    for sha in shas:
        for cell in list_profiled_cells(tx, project_id, sha):
            if cell in cells:
                yield from load_profiles(tx, project_id, sha, cell, limit=MAX_PROFILES)


def _build_profile(tx: Transaction, profile: StoredProfile, trace: str | None) -> EvidenceProfilePart:
    return EvidenceProfilePart(
        commit=profile.sha,
        cell=profile.cell,
        setup=profile.setup,
        environment=dict(profile.environment),
        created_at=profile.created_at,
        parts=tuple(
            (part.kind, part.name, part.seconds, part.calls) for part in load_profile_parts(tx, profile.id)
        ),
        trace=trace,
    )
