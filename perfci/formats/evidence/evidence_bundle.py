"""Read and write an evidence bundle: one tar archive of JSON parts with a manifest of their hashes.

The file is untrusted when it is read: nothing is extracted by name, names are those of the format, sizes are
counted while they unpack, and a file that its manifest does not vouch for is refused.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from perfci.formats.bounded_files import DAMAGE_ERRORS, MIB, decompress, read_decompressed
from perfci.formats.evidence.evidence_schema import (
    EVIDENCE_SCHEMA,
    AARunsPart,
    EvidenceExplanationPart,
    EvidenceProfilePart,
    EvidenceSeriesPart,
    HistoryPart,
    IncidentPart,
    ManifestPart,
    RunIdsPart,
    SessionPart,
    StoredVerdictPart,
)
from perfci.formats.run_document import dump_run, read_untrusted_run, require_json_limits
from perfci.formats.run_document_schema import DocumentPart
from perfci.formats.value_parsing import describe_first_error
from perfci.model import PerfciError, Run

MANIFEST, README = "manifest.json", "README.txt"
INCIDENT, SERIES, SESSIONS = "incident.json", "series.jsonl", "sessions.jsonl"
HISTORIES, VERDICTS, AA_RUNS = "histories.jsonl", "verdicts.jsonl", "aa_runs.jsonl"
RUNS, ROW_IDS = "runs.jsonl", "row_ids.jsonl"
PROFILES, EXPLANATIONS = "profiles.jsonl", "explanations.jsonl"

FILES = (
    README,
    INCIDENT,
    SERIES,
    SESSIONS,
    HISTORIES,
    VERDICTS,
    AA_RUNS,
    RUNS,
    ROW_IDS,
    PROFILES,
    EXPLANATIONS,
)
"""The files beside the manifest that every bundle has, in their order in the archive."""

TRACE = re.compile(r"trace-[0-9]{1,6}\.json")
"""Further files: traces of profiles, which are carried and not read."""

MAX_BUNDLE_BYTES = 256 * MIB
"""Size of a bundle, unpacked: an incident of 500 series with their histories is some 50 MiB."""

MAX_LINES = 100_000
"""Lines of one part."""

MAX_HISTORY_POINTS = 2_000_000
"""Points of all histories: as many are segmented in some minutes."""

Part = TypeVar("Part", bound=DocumentPart)


@dataclass(frozen=True, slots=True)
class EvidenceBundle:
    """Everything that one incident rests on; parts name series by their place in ``series``.

    ``row_ids`` belong to ``runs``, one for one.
    """

    project: str
    made_by: str
    readme: str
    incident: IncidentPart
    series: Sequence[EvidenceSeriesPart]
    sessions: Sequence[SessionPart]
    histories: Sequence[HistoryPart]
    verdicts: Sequence[StoredVerdictPart]
    aa_runs: Sequence[AARunsPart]
    runs: Sequence[Run]
    row_ids: Sequence[RunIdsPart]
    profiles: Sequence[EvidenceProfilePart] = ()
    explanations: Sequence[EvidenceExplanationPart] = ()
    traces: Mapping[str, bytes] = field(default_factory=dict)


def write_bundle(bundle: EvidenceBundle) -> bytes:
    """Write a bundle: the same evidence gives the same bytes."""
    contents = {
        README: bundle.readme.encode(),
        INCIDENT: _dump_part(bundle.incident),
        SERIES: _dump_lines(bundle.series),
        SESSIONS: _dump_lines(bundle.sessions),
        HISTORIES: _dump_lines(bundle.histories),
        VERDICTS: _dump_lines(bundle.verdicts),
        AA_RUNS: _dump_lines(bundle.aa_runs),
        RUNS: b"".join(dump_run(run).encode() + b"\n" for run in bundle.runs),
        ROW_IDS: _dump_lines(bundle.row_ids),
        PROFILES: _dump_lines(bundle.profiles),
        EXPLANATIONS: _dump_lines(bundle.explanations),
        **bundle.traces,
    }
    manifest = build_manifest(bundle.project, bundle.incident.number, bundle.made_by, contents)
    archive = pack_files({MANIFEST: manifest, **contents})
    if len(archive) > MAX_BUNDLE_BYTES:
        raise PerfciError(
            f"The evidence of incident {bundle.incident.number} is larger than a bundle may be, "
            f"{MAX_BUNDLE_BYTES // MIB} MiB: split the incident (docs/incidents.md)."
        )
    return gzip.compress(archive, mtime=0)


def build_manifest(project: str, incident: int, made_by: str, contents: Mapping[str, bytes]) -> bytes:
    """The manifest of these files."""
    files = [
        {"name": name, "bytes": len(body), "sha256": sha256(body).hexdigest()}
        for name, body in contents.items()
    ]
    manifest = {
        "schema": EVIDENCE_SCHEMA,
        "project": project,
        "incident": incident,
        "made_by": made_by,
        "files": files,
    }
    return json.dumps(manifest, indent=1, ensure_ascii=False).encode() + b"\n"


def pack_files(contents: Mapping[str, bytes]) -> bytes:
    """A tar archive of these files, without times, owners or anything else that differs."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as opened:
        for name, body in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            opened.addfile(entry, io.BytesIO(body))
    return archive.getvalue()


def read_bundle(source: Path | bytes) -> EvidenceBundle:
    """Read a bundle and check every file of it against its manifest."""
    name = str(source) if isinstance(source, Path) else "The evidence bundle"
    if isinstance(source, Path):
        archive = read_decompressed(source, MAX_BUNDLE_BYTES)
    else:
        archive = decompress(source, name, MAX_BUNDLE_BYTES)
    contents = _unpack_files(archive, name)
    manifest = _read_manifest(contents, name)
    _check_files(manifest, contents, name)
    bundle = EvidenceBundle(
        project=manifest.project,
        made_by=manifest.made_by,
        readme=contents[README].decode(errors="replace"),
        incident=_parse_part(IncidentPart, contents[INCIDENT], INCIDENT),
        series=_parse_lines(EvidenceSeriesPart, contents, SERIES),
        sessions=_parse_lines(SessionPart, contents, SESSIONS),
        histories=_parse_lines(HistoryPart, contents, HISTORIES),
        verdicts=_parse_lines(StoredVerdictPart, contents, VERDICTS),
        aa_runs=_parse_lines(AARunsPart, contents, AA_RUNS),
        runs=[read_untrusted_run(line, place) for place, line in _split_lines(contents, RUNS)],
        row_ids=_parse_lines(RunIdsPart, contents, ROW_IDS),
        profiles=_parse_lines(EvidenceProfilePart, contents, PROFILES),
        explanations=_parse_lines(EvidenceExplanationPart, contents, EXPLANATIONS),
        traces={name: body for name, body in contents.items() if TRACE.fullmatch(name)},
    )
    _check_references(bundle, name)
    return bundle


def _unpack_files(archive: bytes, name: str) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as opened:
            for entry in opened:
                is_named = entry.name in (MANIFEST, *FILES) or TRACE.fullmatch(entry.name)
                if not is_named or not entry.isreg() or entry.issparse():
                    raise PerfciError(
                        f"{name} holds {entry.name[:80]!r}, which is no file of {EVIDENCE_SCHEMA}: "
                        "nothing of it was used."
                    )
                if entry.name in contents:
                    raise PerfciError(f"{name} holds {entry.name} twice: nothing of it was used.")
                body = opened.extractfile(entry)
                contents[entry.name] = body.read() if body else b""
                if len(contents[entry.name]) != entry.size:
                    raise PerfciError(f"{name} is truncated or damaged: {entry.name} is cut off.")
    except (*DAMAGE_ERRORS, UnicodeError, ValueError, OSError) as error:
        raise PerfciError(f"{name} is no evidence bundle, or it is damaged: {error}.") from None
    return contents


def _read_manifest(contents: Mapping[str, bytes], name: str) -> ManifestPart:
    if MANIFEST not in contents:
        raise PerfciError(f"{name} is no evidence bundle: it has no {MANIFEST}.")
    require_json_limits(contents[MANIFEST], f"{MANIFEST} of {name}")
    try:
        schema = json.loads(contents[MANIFEST])["schema"]
    except (ValueError, KeyError, TypeError):
        schema = EVIDENCE_SCHEMA  # the schema of the manifest says what is wrong with it
    if schema != EVIDENCE_SCHEMA:
        raise PerfciError(
            f"{name} is {str(schema)[:80]!r}, and this perfci reads {EVIDENCE_SCHEMA}: "
            "verify it with the perfci that wrote it, or a newer one."
        )
    return _parse_part(ManifestPart, contents[MANIFEST], MANIFEST)


def _check_files(manifest: ManifestPart, contents: Mapping[str, bytes], name: str) -> None:
    """Refuse a bundle whose files are not those of its manifest."""
    listed = [file.name for file in manifest.files]
    traces = sorted(name for name in contents if TRACE.fullmatch(name))
    if sorted(listed) != sorted([*FILES, *traces]):
        raise PerfciError(
            f"{name} does not have the files of {EVIDENCE_SCHEMA}: its manifest lists {listed!r:.400}."
        )
    for file in manifest.files:
        if file.name not in contents:
            raise PerfciError(f"{name} has no {file.name}, which its manifest lists: nothing of it was used.")
        body = contents[file.name]
        if len(body) != file.bytes or sha256(body).hexdigest() != file.sha256:
            raise PerfciError(
                f"{name} was changed after it was written: {file.name} is not the file that its manifest "
                f"lists (SHA-256 {file.sha256[:12]}… expected, {sha256(body).hexdigest()[:12]}… found)."
            )


def _check_references(bundle: EvidenceBundle, name: str) -> None:
    """Refuse parts that name a series, a run or a result that is not there."""
    numbers = [
        *(member.series for member in bundle.incident.members),
        *(history.series for history in bundle.histories),
        *(verdict.series for verdict in bundle.verdicts),
        *(runs.series for runs in bundle.aa_runs),
    ]
    if any(number >= len(bundle.series) for number in numbers):
        raise PerfciError(f"{name} names a series that is not in its {SERIES}.")
    if sum(len(history.commits) for history in bundle.histories) > MAX_HISTORY_POINTS:
        raise PerfciError(f"{name} has more than {MAX_HISTORY_POINTS:,} points in its {HISTORIES}.")
    if len({history.series for history in bundle.histories}) < len(bundle.histories):
        raise PerfciError(f"{name} has two histories of one series.")
    if [len(run.results) for run in bundle.runs] != [len(ids.results) for ids in bundle.row_ids]:
        raise PerfciError(f"{name} has other results in {RUNS} than in {ROW_IDS}.")
    results = [ids.result for run in bundle.row_ids for ids in run.results]
    compared = [
        number
        for verdict in bundle.verdicts
        if verdict.decision
        for look in verdict.decision.looks
        for number in (*look.base_results, *look.head_results)
    ]
    named = {number for history in bundle.histories for point in history.results for number in point}
    if len(set(results)) < len(results) or not named.union(compared) <= set(results):
        raise PerfciError(f"{name} names a result that is not once in its {ROW_IDS}.")
    for run, ids in zip(bundle.runs, bundle.row_ids, strict=True):
        for result, own in zip(run.results, ids.results, strict=True):
            if len(result.processes) != len(own.processes):
                raise PerfciError(f"{name} has other processes in {RUNS} than in {ROW_IDS}.")


def _dump_part(part: DocumentPart) -> bytes:
    content: Any = part.model_dump(mode="json", exclude_defaults=True)
    return json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


def _dump_lines(parts: Sequence[DocumentPart]) -> bytes:
    return b"".join(_dump_part(part) + b"\n" for part in parts)


def _parse_lines(schema: type[Part], contents: Mapping[str, bytes], name: str) -> list[Part]:
    return [_parse_part(schema, line, place) for place, line in _split_lines(contents, name)]


def _split_lines(contents: Mapping[str, bytes], name: str) -> Iterator[tuple[str, bytes]]:
    if contents[name].count(b"\n") > MAX_LINES:
        raise PerfciError(f"{name} has more than {MAX_LINES:,} lines.")
    for number, line in enumerate(contents[name].split(b"\n"), start=1):
        if line:
            yield f"{name}, line {number},", line


def _parse_part(schema: type[Part], body: bytes, name: str) -> Part:
    require_json_limits(body, name)
    try:
        return schema.model_validate_json(body)
    except ValidationError as error:
        raise PerfciError(f"{name} is not valid {EVIDENCE_SCHEMA}: {describe_first_error(error)}") from None
