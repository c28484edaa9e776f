"""This repository's own workflows, executed with a change that makes what it measures 15 % slower."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hosted_runner import Hosted
from tests.support.loopback_github import hub as hub
from tests.support.loopback_github import on_loopback
from tests.support.stateful_github import FakeGitHub

ROOT = Path(__file__).parent.parent
MEASURED = (".github", "benchmarks", "perfci", "constraints.txt", "perfci.toml", "pyproject.toml")
WIDER = ROOT / "tests" / "wider_layers.patch"
"""Feed-forward layers that are 15 % wider: 15 % more arithmetic in them, and 15 % more time."""

ALL, ONE = r"^(counts|feedforward)\.", r"^counts.*stream_counts.*none"

NEEDED = {"__init__", "counts", "attention_kernels", "feedforward", "gpt_model", "training", "workload_sizes"}


@pytest.fixture
def hosted(tmp_path: Path, hub: FakeGitHub) -> Iterator[Hosted]:
    with on_loopback(hub) as api:
        hosted = Hosted(tmp_path, hub, api)
        for name in MEASURED:
            place = hosted.project.folder / name
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, place)
        yield hosted


@pytest.mark.slow
def test_our_own_workflow_fails_on_a_wider_layer_but_not_on_unmeasured_changes(
    hosted: Hosted, hub: FakeGitHub
) -> None:
    measure_one(hosted.project.folder / ".github" / "workflows" / "perf.yml")
    hosted.project.commit("Begin")
    harmless = hosted.propose(hosted.branch("words", "Explain", **{"docs__more.md": "More."}), number=6)
    wider = hosted.propose(widened(hosted))

    unseen = hosted.measure(harmless)
    stopped = hosted.measure(wider)
    hosted.report(wider, stopped)

    assert (unseen.ended, unseen.outputs["verdict"]) == ("success", "identical")
    assert (stopped.ended, stopped.outputs["verdict"]) == ("failure", "worse")
    assert "▲ **worse +14.9" in stopped.summary
    assert ["flops" in comment["body"] for comment in hub.comments] == [True]


@pytest.mark.proof
def test_our_own_workflow_detects_fifteen_percent_of_cpu_time(hosted: Hosted) -> None:
    hosted.project.commit("Begin")

    stopped = hosted.measure(hosted.propose(widened(hosted)))

    assert (stopped.ended, stopped.outputs["verdict"]) == ("failure", "worse")
    assert "cpu_forward_time" in stopped.summary


def widened(hosted: Hosted) -> str:
    hosted.project.git("checkout", "--quiet", "-b", "faster")
    hosted.project.git("apply", str(WIDER))
    sha = hosted.project.commit("Widen the layers")
    hosted.project.git("checkout", "--quiet", "main")
    return sha


def measure_one(workflow: Path) -> None:
    """All that it measures takes minutes: one benchmark stands for it, which counts, with the files it
    needs.
    """
    for path in (workflow.parents[2] / "benchmarks").glob("*.py"):
        if path.stem not in NEEDED:
            path.unlink()
    text = workflow.read_text()
    assert text.count(f"bench: {ALL}\n") == 1
    workflow.write_text(text.replace(f"bench: {ALL}\n", f"bench: {ONE}\n"))
