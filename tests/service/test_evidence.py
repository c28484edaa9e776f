"""The evidence of an incident: exported from a store, it is computed again without it, bit for bit."""

from __future__ import annotations

import gzip
import io
import json
import math
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfci.config import Settings
from perfci.formats.evidence.evidence_bundle import (
    FILES,
    MANIFEST,
    build_manifest,
    pack_files,
    read_bundle,
)
from perfci.model import PerfciError, Stage
from perfci.service.evidence.export_evidence import export_evidence
from perfci.service.evidence.verify_evidence import EvidenceVerification, verify_evidence
from perfci.store import open_store
from perfci.store.explanations import NewProfile, ProfilePart, add_explanation, add_profile
from perfci.store.incidents.incident_lists import list_incidents
from tests.support.builders import NOON, PROJECT, a_commit
from tests.support.confirmed_step import STEP_AT, store_confirmed_step
from tests.support.databases import fresh_database
from tests.support.django_store import PROJECT as DJANGO
from tests.support.django_store import extract_sample, needs_django, open_django_store
from tests.support.pull_request_uploads import (
    HEAD,
    WOBBLES,
    judge,
    main_run,
    pull_run,
    run_judge_worker,
    timed,
    upload,
    upload_main_branch,
)


def _export_step(kind: str, folder: Path) -> bytes:
    with fresh_database(kind, folder) as url, closing(open_store(url, create=False)) as store:
        store_confirmed_step(store)
        return export_evidence(store, PROJECT, 1, Settings())


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return _export_step("sqlite", tmp_path_factory.mktemp("evidence"))


def test_carries_profiles_traces_and_explanations(tmp_path: Path) -> None:
    cell, trace = "training.Step.time_step(1)", b'{"traceEvents": []}'
    shas = a_commit(STEP_AT - 1).sha, a_commit(STEP_AT).sha
    with fresh_database("sqlite", tmp_path) as url, closing(open_store(url, create=False)) as store:
        store_confirmed_step(store)
        with store.begin() as tx:
            for sha in shas:
                line = ProfilePart("line", "model.py:12 loss.item()", 0.25, 1.0)
                profile = NewProfile(
                    sha, cell, "cpu", {"torch": "2.13.0"}, 1.0, 0.9, [line], b"{}", b"{}", trace
                )
                add_profile(tx, 1, profile, at=NOON)
            document = {"sentence": "model.py:12 takes 0.3 s more"}
            question = {"base": shas[0], "head": shas[1], "cell": cell, "metric": "time"}
            add_explanation(tx, 1, **question, conclusion="explained", document=document, at=NOON)
        evidence = export_evidence(store, PROJECT, 1, Settings())

    read = read_bundle(evidence)
    assert [(profile.commit, profile.trace) for profile in read.profiles] == [
        (shas[0], "trace-1.json"),
        (shas[1], "trace-2.json"),
    ]
    assert read.profiles[0].parts == (("line", "model.py:12 loss.item()", 0.25, 1.0),)
    assert [explanation.document for explanation in read.explanations] == [document]
    assert read.traces == {"trace-1.json": trace, "trace-2.json": trace}
    assert verify_evidence(read).stands
    contents = unpack(evidence) | {"trace-2.json": b"{}"}
    with pytest.raises(PerfciError, match=r"was changed after it was written: trace-2.json"):
        read_bundle(pack(contents))
    with pytest.raises(PerfciError, match=r"does not have the files of perfci.evidence/1"):
        read_bundle(pack(unpack(evidence) | {"trace-3.json": trace}))


def unpack(bundle: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(bundle))) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]


def pack(contents: Mapping[str, bytes]) -> bytes:
    """A bundle whose manifest is that of other files, as one that was changed has."""
    return gzip.compress(pack_files(contents))


def reseal(bundle: bytes, name: str, change: Callable[[list[Any]], None]) -> bytes:
    """Change the lines of a part, and write a manifest that vouches for them."""
    contents = unpack(bundle)
    lines = [json.loads(line) for line in contents[name].splitlines()]
    change(lines)
    contents[name] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    files = {file: contents[file] for file in FILES}
    return pack({MANIFEST: build_manifest(PROJECT, 1, "another", files), **files})


def verify(bundle: bytes) -> EvidenceVerification:
    return verify_evidence(read_bundle(bundle))


def next_sample(lines: list[Any], session: str, process: int) -> None:
    """Move one sample of a session by the smallest step that a float64 has."""
    [samples] = [
        result["processes"][process]["samples"]
        for run in lines
        if run["session"] == session
        for result in run["results"][:1]
    ][-1:]
    samples[0] = math.nextafter(samples[0], math.inf)


def test_everything_of_an_incident_is_computed_again(bundle: bytes) -> None:
    verification = verify(bundle)

    assert verification.stands
    assert [member.basis for member in verification.members] == [
        "measured on 12 fresh pairs of 0000000ccc..0000000dcc",
        "found in its history",
    ]
    assert (verification.sampled_levels, verification.other_levels) == (48, 0)
    assert (verification.change_points, len(verification.verdicts)) == (2, 1)


def test_the_same_evidence_is_the_same_bytes_on_both_databases(bundle: bytes, tmp_path: Path) -> None:
    assert list(unpack(bundle)) == [MANIFEST, *FILES]
    assert _export_step("postgresql", tmp_path) == bundle


def test_names_machine_environment_seed_rule_and_commands(bundle: bytes) -> None:
    contents = unpack(bundle)
    run, history, session = (
        json.loads(contents[name].splitlines()[0])
        for name in ("runs.jsonl", "histories.jsonl", "sessions.jsonl")
    )

    assert (run["machine"]["cpu"], run["environment"]) == ("AMD EPYC", {"torch": "2.13.0"})
    assert (history["rule"]["bar"], session["seed"]) == (0.05, 0)
    assert contents["README.txt"].decode().splitlines()[3:7] == [
        "Compute everything again, without the store it came from:",
        "    perfci verify FILE",
        "Measure the two commits again, on fresh pairs:",
        "    perfci compare 0000000ccc 0000000dcc --bench "
        "'^training\\.Step\\.time_step\\(1\\)$|^training\\.Step\\.time_step\\(2\\)$'",
    ]


def test_refuses_a_sample_that_was_changed_by_one_unit_in_the_last_place(bundle: bytes) -> None:
    changed = unpack(reseal(bundle, "runs.jsonl", lambda lines: next_sample(lines, "pairs", 0)))
    contents = unpack(bundle) | {"runs.jsonl": changed["runs.jsonl"]}

    with pytest.raises(
        PerfciError, match=r"was changed after it was written: runs.jsonl is not the file that "
    ):
        read_bundle(pack(contents))


def test_a_changed_sample_under_a_new_manifest_gives_another_verdict(bundle: bytes) -> None:
    verification = verify(reseal(bundle, "runs.jsonl", lambda lines: next_sample(lines, "pairs", 5)))

    assert not verification.stands
    assert {difference.record.id for difference in verification.verdict_differences} == {1}
    assert [member.stands for member in verification.members] == [False, True]


def test_a_changed_sample_of_the_history_gives_another_level(bundle: bytes) -> None:
    verification = verify(reseal(bundle, "runs.jsonl", lambda lines: next_sample(lines, "main-20", 1)))

    [difference] = verification.level_differences
    assert difference.description.startswith("the level at 00000014cc was 1.2971")
    assert verification.verdict_differences == []


def test_a_changed_level_gives_another_change_point(bundle: bytes) -> None:
    def raise_level(lines: list[Any]) -> None:
        lines[1]["levels"][3] *= 1.01
        lines[1]["results"][3] = []

    verification = verify(reseal(bundle, "histories.jsonl", raise_level))

    assert [difference.description[:36] for difference in verification.history_differences] == [
        "the change point at 0000000dcc was 2"
    ]
    assert [member.stands for member in verification.members] == [True, False]


def test_a_change_that_was_never_found_does_not_stand(bundle: bytes) -> None:
    contents = unpack(bundle)
    incident = json.loads(contents["incident.json"])
    incident["members"][1]["after"] *= 2
    contents["incident.json"] = json.dumps(incident).encode()
    files = {file: contents[file] for file in FILES}

    verification = verify(pack({MANIFEST: build_manifest(PROJECT, 1, "another", files), **files}))

    assert [member.stands for member in verification.members] == [True, False]
    assert verification.history_differences == []


def test_an_alarm_that_later_points_took_back_stands_on_the_points_of_its_time(bundle: bytes) -> None:
    """Behind the step the level goes back and wanders: the whole history shows another change."""

    def go_on(lines: list[Any]) -> None:
        history = lines[1]
        for number in range(40):
            history["commits"].append(f"{number:040x}")
            history["levels"].append(2.6 * (1 + 0.2 * (-1) ** number))
        for name, value in (("clocks", "wall"), ("spreads", 0.1), ("results", [])):
            history[name] += [value] * 40
        history["changes"] = []

    verification = verify(reseal(bundle, "histories.jsonl", go_on))

    assert verification.members[1].basis == (
        "found in its first 24 commits, up to 00000018cc: later ones do not show it any more"
    )


def test_says_which_versions_decided_where_others_are_here(bundle: bytes) -> None:
    def age(lines: list[Any]) -> None:
        lines[0]["decision"]["made_by"] = "perfci 0.0.1, numpy 1.0, scipy 1.0"

    verification = verify(reseal(bundle, "verdicts.jsonl", age))

    assert verification.stands
    assert list(verification.other_versions) == ["another", "perfci 0.0.1, numpy 1.0, scipy 1.0"]


def _replace(name: str, body: bytes) -> Callable[[bytes], bytes]:
    def change(bundle: bytes) -> bytes:
        files = {file: unpack(bundle)[file] for file in FILES} | {name: body}
        return pack({MANIFEST: build_manifest(PROJECT, 1, "another", files), **files})

    return change


def _change_line(name: str, line: int, **values: Any) -> Callable[[bytes], bytes]:
    return lambda bundle: reseal(bundle, name, lambda lines: lines[line].update(values))


def _without(name: str) -> Callable[[bytes], bytes]:
    return lambda bundle: pack({key: body for key, body in unpack(bundle).items() if key != name})


def _with_schema(schema: str) -> Callable[[bytes], bytes]:
    def change(bundle: bytes) -> bytes:
        contents = unpack(bundle)
        manifest = contents[MANIFEST].replace(b"perfci.evidence/1", schema.encode())
        return pack(contents | {MANIFEST: manifest})

    return change


def _with_link(bundle: bytes) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as opened:
        entry = tarfile.TarInfo(MANIFEST)
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        opened.addfile(entry)
    return gzip.compress(archive.getvalue())


def _infinite(bundle: bytes) -> bytes:
    contents = unpack(bundle)
    body = contents["runs.jsonl"].replace(b'"samples":[', b'"samples":[NaN,', 1)
    return _replace("runs.jsonl", body)(bundle)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda bundle: pack(unpack(bundle) | {"../../home/me/.bashrc": b"rm"}),
            "holds '../../home/me/.bashrc', which is no file of perfci.evidence/1: nothing of it was used.",
        ),
        (_with_link, "holds 'manifest.json', which is no file of perfci.evidence/1: nothing of it was used."),
        (
            lambda bundle: gzip.compress(bytes(3 * 2**20), 9),
            "The evidence bundle is too large: the limit is 2 MiB, unpacked.",
        ),
        (lambda bundle: bundle[:-900], "The evidence bundle is truncated or damaged: "),
        (lambda bundle: b"PK\x03\x04", "The evidence bundle is no evidence bundle, or it is damaged: "),
        (
            _without("aa_runs.jsonl"),
            "has no aa_runs.jsonl, which its manifest lists: nothing of it was used.",
        ),
        (_without(MANIFEST), "The evidence bundle is no evidence bundle: it has no manifest.json."),
        (
            _with_schema("perfci.evidence/2"),
            "is 'perfci.evidence/2', and this perfci reads perfci.evidence/1: "
            "verify it with the perfci that wrote it, or a newer one.",
        ),
        (_infinite, "runs.jsonl, line 1, is not valid perfci.run/1: results[0].processes"),
        (_replace("incident.json", b"[" * 200_000), "incident.json is nested too deep."),
        (_replace("series.jsonl", b"[" * 250_001), "holds too many objects, lists or values."),
        (_replace("sessions.jsonl", b'{"uid":"a","uid":"b"}'), "has a key twice in one object"),
        (_replace("sessions.jsonl", b"{}\n" * 100_001), "sessions.jsonl has more than 100,000 lines."),
        (_change_line("verdicts.jsonl", 0, series=9), "names a series that is not in its series.jsonl."),
        (
            _change_line("row_ids.jsonl", 0, results=[]),
            "has other results in runs.jsonl than in row_ids.jsonl.",
        ),
        (_change_line("histories.jsonl", 0, levels=[1.0]), "its columns have different lengths"),
        (
            _change_line("histories.jsonl", 0, results=[[1], *[[2]] * 22, [10**9]]),
            "names a result that is not once in its row_ids.jsonl.",
        ),
        (_change_line("verdicts.jsonl", 0, kind="catastrophe"), "verdicts.jsonl, line 1, is not valid"),
    ],
)
def test_refuses_a_hostile_bundle_with_one_sentence(
    bundle: bytes, change: Callable[[bytes], bytes], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfci.formats.evidence.evidence_bundle.MAX_BUNDLE_BYTES", 2 * 2**20)

    with pytest.raises(PerfciError) as refused:
        read_bundle(change(bundle))

    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_fresh_process_verifies_without_store_network_or_torch(bundle: bytes, tmp_path: Path) -> None:
    file = tmp_path / "incident-1.tar.gz"
    file.write_bytes(bundle)
    script = (
        "import socket, sqlite3, sys\n"
        "def refuse(*_, **__): raise AssertionError('no store, no network')\n"
        "socket.socket.connect = sqlite3.connect = refuse\n"
        "from perfci.cli import run_cli\n"
        f"code = run_cli(['verify', {str(file)!r}])\n"
        "assert 'torch' not in sys.modules and 'git' not in sys.modules\n"
        "sys.exit(code)\n"
    )

    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-2:] == [
        "Computed again: 48 levels from samples, 2 change points of 2 histories, 1 verdict.",
        "The evidence stands: everything came out as it was stored, bit for bit.",
    ]
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_separate_runs_of_a_commit_that_was_merged_are_judged_again(tmp_path: Path) -> None:
    with (
        fresh_database("sqlite", tmp_path) as url,
        closing(open_store(url, create=False)) as store,
    ):
        upload_main_branch(store)
        judge(store, [pull_run(timed(1.3))])
        merged = replace(a_commit(13), sha=HEAD)
        upload(store, main_run(13, timed(1.3), commit=merged, session="merged"))
        upload(store, *(main_run(number, timed(1.3 + WOBBLES[number % 12])) for number in range(14, 26)))
        run_judge_worker(store)
        bundle = export_evidence(store, PROJECT, 1, Settings())

    verification = verify(bundle)

    assert verification.stands
    assert [record.verdict.stage for record in verification.verdicts] == [Stage.SEPARATE_RUNS]


@pytest.mark.proof
@needs_django
def test_incidents_of_django_stand(tmp_path: Path) -> None:
    with open_django_store(tmp_path, extract_sample(tmp_path)) as store:
        with store.read() as tx:
            numbers = [record.number for record in list_incidents(tx, 1, limit=100)]
        verifications = {
            number: verify(export_evidence(store, DJANGO, number, Settings())) for number in numbers
        }

    assert len(verifications) > 3
    assert all(verification.stands for verification in verifications.values())
