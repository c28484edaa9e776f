"""``perfci compare`` reports a shift that all benchmarks have in common."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfci.cli import run_cli
from tests.support.git_project import GitProject

SUITE = """
    import random
    import thing
    def level(): return {"samples": [thing.LEVEL * random.gauss(1, 0.001)], "number": 1}
    def track_a(): return level()
    def track_b(): return level()
    def track_c(): return level()
    def track_d(): return level()
    def track_e(): return level()
    def track_f(): return level()
    for track in (track_a, track_b, track_c, track_d, track_e, track_f):
        track.unit = "seconds"
"""


def test_two_percent_in_all_benchmarks_is_a_pooled_finding_and_fails_no_check(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = GitProject(working_folder)
    project.commit("Fast", thing="LEVEL = 1.0\n", benchmarks__suite=SUITE)
    project.commit("Two percent slower", thing="LEVEL = 1.02\n")

    code = run_cli(["compare", "HEAD~1", "HEAD", "--json", "result.json", "--markdown", "result.md"])

    document = json.loads((working_folder / "result.json").read_text())
    assert (code, {verdict["kind"] for verdict in document["verdicts"]}) == (0, {"unchanged"})
    assert (document["pooled"]["kind"], document["pooled"]["benchmarks"]) == ("worse_everywhere", 6)
    assert document["pooled"]["ratio"] == pytest.approx(1.02, abs=0.003)
    assert "△ all benchmarks together: worse overall: +" in capsys.readouterr().out
    assert "**All benchmarks together:** worse overall: +" in (working_folder / "result.md").read_text()
