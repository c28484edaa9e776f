"""``perfci check --replay`` recomputes every verdict from what is stored, and detects changed samples."""

from __future__ import annotations

import json
import re
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest

from perfci.cli import run_cli
from tests.support.git_project import GitProject

SUITE = """
    import random
    import thing
    def level(): return {"samples": [thing.LEVEL * random.gauss(1, 0.01) for _ in range(3)], "number": 1}
    def track_one(): return level()
    def track_two(): return level()
    def track_three(): return level()
    def track_bytes(): return thing.BYTES
    track_bytes.unit, track_bytes.metric, track_bytes.clock = "bytes", "peak", "exact"
    for track in (track_one, track_two, track_three):
        track.unit = "seconds"
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three comparisons of identical inputs, one that confirms a regression, and a range in rounds."""
    folder = tmp_path_factory.mktemp("measured")
    project = GitProject(folder)
    project.commit("Before", README="What it is.\n")
    project.commit("Fast", thing="LEVEL, BYTES = 100.0, 1000\n", benchmarks__suite=SUITE)
    project.commit("Slow", thing="LEVEL, BYTES = 130.0, 1200\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for _ in range(3):
            assert run_cli(["compare", "HEAD", "HEAD"]) == 0
        assert run_cli(["compare", "HEAD~1", "HEAD", "--json", "compared.json"]) == 1
        assert run_cli(["run", "HEAD~2..HEAD", "--rounds", "3", "--no-confirm"]) == 0
    return folder


@pytest.fixture
def copied(measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The database of what was measured, free to be damaged."""
    (tmp_path / "perfci.db").write_bytes((measured / ".perfci" / "perfci.db").read_bytes())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "perfci.toml").write_text(f'[project]\nname = "{measured.name}"\n')
    return tmp_path / "perfci.db"


def rows(path: Path, query: str) -> list[tuple]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def change(path: Path, query: str, values: tuple = ()) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(query, values)


def replayed(capsys: pytest.CaptureFixture[str], expected: int) -> str:
    assert run_cli(["check", "--replay", "--db", "sqlite:///perfci.db"]) == expected
    return capsys.readouterr().out


def test_recomputes_every_verdict_bit_for_bit(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ((verdicts,),) = rows(copied, "select count(*) from verdicts")

    assert replayed(capsys, 0) == f"{verdicts} verdicts recomputed from stored samples: identical\n"


def test_reports_a_changed_sample(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ((row_id, samples, evidence_of),) = rows(
        copied,
        "select p.id, p.samples, v.id from verdicts v, json_each(v.evidence) e join processes p on p.id "
        "= e.value "
        "where v.stage = 'confirmation' and v.mde > 0 order by v.id, p.id limit 1",
    )
    damaged = struct.pack("<3d", *(1.5 * value for value in struct.unpack("<3d", samples)))
    change(copied, "update processes set samples = ? where id = ?", (damaged, row_id))

    lines = replayed(capsys, 1).splitlines()

    assert any(re.search(rf"verdict {evidence_of}: ratio was \S+, now \S+$", line) for line in lines)
    assert lines[-1].endswith(" of them differ")
    assert all(re.search(r" verdict \d+: ", line) for line in lines[:-1])


def test_reports_a_changed_verdict(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(copied, "drop trigger verdicts_are_not_edited")
    change(
        copied, "update verdicts set p_value = p_value / 2, kind = 'unchanged' where stage = 'confirmation'"
    )

    out = replayed(capsys, 1)

    assert "kind was unchanged, now regression" in out
    assert re.search(r"p_value was \S+, now \S+", out)


def test_reports_a_lost_process(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(copied, "delete from processes where id = (select max(id) from processes)")

    assert "evidence was" in replayed(capsys, 1)


def test_writes_differences_as_json(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(copied, "delete from decisions where verdict_id = 1")

    assert run_cli(["check", "--replay", "--json", "--db", "sqlite:///perfci.db"]) == 0

    document = json.loads(capsys.readouterr().out)
    ((verdicts,),) = rows(copied, "select count(*) from verdicts")
    assert (document["verdicts_recomputed"], document["verdicts_without_looks"]) == (verdicts - 1, 1)
    assert document["differences"] == []


def test_replays_a_policy_with_the_noise_priors_of_that_time(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["check", "--dry-run", "--json", "--db", "sqlite:///perfci.db"]) == 0

    assert json.loads(capsys.readouterr().out)["verdicts"] == []


def test_confirms_on_pairs_unseen_by_screening(copied: Path) -> None:
    result = rows(
        copied,
        "select v.series_id, v.base, v.head, v.stage, v.evidence from verdicts v join sessions s "
        "on v.session_id = s.id where s.kind <> 'aa'",
    )
    seen: dict[tuple, dict[str, set[int]]] = {}
    for series, base, head, stage, evidence in result:
        seen.setdefault((series, base, head), {}).setdefault(stage, set()).update(json.loads(evidence))

    both = [stages for stages in seen.values() if len(stages) == 2]
    assert len(both) == 4
    assert [stages["screening"] & stages["confirmation"] for stages in both] == [set()] * 4
    assert all(stages["confirmation"] for stages in both)


def test_uses_each_process_as_evidence_once(copied: Path) -> None:
    documents = [json.loads(evidence) for (evidence,) in rows(copied, "select evidence from verdicts")]

    assert documents
    assert all(len(ids) == len(set(ids)) for ids in documents)


def test_stores_every_interim_analysis_with_its_noise_priors(copied: Path) -> None:
    (looks,) = rows(
        copied,
        "select d.looks from decisions d join verdicts v on d.verdict_id = v.id "
        "where v.stage = 'confirmation' and v.mde > 0 order by v.id limit 1",
    )[0]

    taken = json.loads(looks)

    assert [look["pairs"] for look in taken] == sorted({look["pairs"] for look in taken})
    assert (taken[-1]["kind"], taken[-1]["more"], taken[-1]["pairs"]) == ("regression", 0, 10)
    assert all(0 < look["tail"] <= 0.025 and look["prior_sd"] > 0 for look in taken)
