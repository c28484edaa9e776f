"""Export the evidence of an incident as the bytes of one file."""

from __future__ import annotations

from perfci.config import Settings
from perfci.formats.evidence.evidence_bundle import write_bundle
from perfci.model import PerfciError
from perfci.project_policies import build_project_policies
from perfci.service.evidence.collect_evidence import collect_evidence
from perfci.store import Store
from perfci.store.projects import find_project

EVIDENCE_FORMAT = "evidence"
"""The name of the format on the command line."""


def export_evidence(store: Store, slug: str, number: int, settings: Settings) -> bytes:
    """Write the evidence bundle of an incident."""
    with store.read() as tx:
        project = find_project(tx, slug)
        if project is None:
            raise PerfciError(f"There is no project {slug} in this store.")
        policy = build_project_policies(settings, project).policy
        bundle = collect_evidence(tx, project, number, policy)
    return write_bundle(bundle)
