"""The workflows that `perfci init` writes, executed: events in, comment, check and stored runs out.

``act`` runs them on this machine. Checkout, setup-python, caches and artifacts are stand-ins
(``pinned_actions``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfci.scaffold.starter_files import render_starter_files
from tests.support.deployed_server import a_bound_server, expected_changes_in, in_history, stored
from tests.support.github_payloads import commented, dispatched, pushed, scheduled
from tests.support.hosted_runner import Hosted, Ran
from tests.support.loopback_github import hub as hub
from tests.support.loopback_github import on_loopback
from tests.support.loopback_issuer import issuing
from tests.support.stateful_github import FakeGitHub, comment, pull

pytestmark = pytest.mark.slow

QUICK = """
[run]
rounds = 1

[environment]
preload = []
"""
"""Nothing is imported beforehand: the suites below import no torch."""

COUNTS = """
    import thing

    def track_bytes():
        return thing.BYTES
    track_bytes.unit, track_bytes.metric, track_bytes.clock = "bytes", "peak", "exact"
"""
TIMES = (
    COUNTS
    + """
    def time_step():
        thing.step()
    time_step.rounds, time_step.repeat, time_step.number, time_step.warmup_time = 1, 5, 1, 0
"""
)
THING = """
    BYTES = {bytes}

    def step():
        return sum(i * i for i in range({work}))
"""


LOOK = """
    import json, os, subprocess
    asked = ["git", "-C", os.environ["GITHUB_WORKSPACE"], "config", "--list"]
    with open(os.path.join(os.environ["HUB"], "seen.json"), "w") as file:
        git = subprocess.check_output(asked, text=True)
        json.dump({"environment": str(dict(os.environ)), "git": git}, file)
"""

FORGE = """
    import os, pathlib
    runs = pathlib.Path(os.environ["GITHUB_WORKSPACE"], "perfci-results", "runs")
    runs.mkdir(parents=True, exist_ok=True)
    earlier = pathlib.Path(os.environ["HUB"], "artifacts", "1", "perfci-results", "runs")
    text = (earlier / "history-aa.json").read_text()
    mine = text.replace('"run_id":"1"', '"run_id":"' + os.environ["GITHUB_RUN_ID"] + '"')
    (runs / "forged.json").write_text(mine.replace('"session":"', '"session":"x'))
"""


def a_thing(*, bytes: int = 1000, work: int = 30_000) -> str:
    return THING.format(bytes=bytes, work=work)


@pytest.fixture
def hosted(tmp_path: Path, hub: FakeGitHub) -> Iterator[Hosted]:
    """A repository with what `perfci init` writes, but for a suite that takes no time."""
    with on_loopback(hub) as api:
        hosted = Hosted(tmp_path, hub, api)
        for name, text in render_starter_files(hosted.project.folder, "acme/model").items():
            hosted.project.write(name, text)
        once = (hosted.project.folder / "perfci.toml").read_text() + QUICK
        hosted.project.commit("Begin", thing=a_thing(), benchmarks__starter=COUNTS, **{"perfci.toml": once})
        yield hosted


def test_a_slower_pull_request_is_reported_accepted_and_fixed(hosted: Hosted, hub: FakeGitHub) -> None:
    hosted.project.commit("Measure time", benchmarks__starter=TIMES)
    slower = hosted.propose(hosted.branch("faster", "Think harder", thing=a_thing(work=90_000)))

    measured = hosted.measure(slower, "opened")
    asked_by_it = list(hub.received_requests)
    hosted.report(slower, measured)

    profile = hosted.artifact(measured) / "profiles" / "starter.time_step-head.txt"
    assert measured.jobs == {"compare": "success"}
    assert measured.outputs == {"verdict": "worse", "regressions": "1"}
    assert measured.summary.startswith("### perfci: 1 regression")
    assert worse_in(hosted, measured) == ["starter.time_step"]
    assert (
        "Profiles of `starter.time_step` at base and head are in the `profiles/` folder" in measured.summary
    )
    assert "range(90000)" in profile.read_text()
    assert asked_by_it == []
    assert [
        ("time_step" in each_comment["body"], "1 regression" in each_comment["body"])
        for each_comment in hub.comments
    ] == [(True, True)]
    assert [(check["head_sha"], check["conclusion"]) for check in hub.checks] == [
        (slower["head"]["sha"], "neutral")
    ]

    hosted.keep_artifact(slower, measured)
    accept = f"/perfci accept {slower['head']['sha'][:10]} it is meant"
    hub.comments.append(comment(50, accept, "bob"))
    hosted.run("perf-report.yml", "issue_comment", commented(slower, accept, "bob"))

    assert "**Accepted:** `bob: it is meant`" in hub.comments[0]["body"]
    assert [check["conclusion"] for check in hub.checks] == ["success"]
    del hub.comments[1]

    repaired = hosted.propose(
        hosted.branch("faster", "Think as before", thing=a_thing() + "    # as before\n")
    )
    hosted.report(repaired, Ran(0, ""), action="requested")
    outdated = hub.comments[0]["body"]
    again = hosted.measure(repaired)
    hosted.report(repaired, again)

    assert again.outputs["regressions"] == "0"
    assert worse_in(hosted, again) == []
    assert "> **Outdated:**" in outdated
    assert [
        ("1 regression" in each_comment["body"], each_comment["issue"]) for each_comment in hub.comments
    ] == [(False, 7)]
    assert [check["head_sha"] for check in hub.checks] == [slower["head"]["sha"], repaired["head"]["sha"]]
    assert (
        hub.checks[1]["details_url"]
        == f"https://github.com/acme/model/actions/runs/{again.number}/attempts/1"
    )


def test_a_fork_reports_and_never_sees_a_credential(hosted: Hosted, hub: FakeGitHub, tmp_path: Path) -> None:
    hosted.variables = {"PERFCI_SERVER": "https://perf.example.com"}
    proposal = hosted.propose(
        hosted.branch("faster", "Take a look", thing=a_thing(bytes=1200) + LOOK), fork=2
    )

    measured = hosted.measure(proposal, "opened")
    asked_by_it = list(hub.received_requests)
    hosted.report(proposal, measured)

    seen = json.loads((tmp_path / "seen.json").read_text())
    assert [token for token in hub.tokens if token in seen["environment"] + seen["git"]] == []
    assert "ACTIONS_ID_TOKEN" not in seen["environment"]
    assert "GITHUB_TOKEN" not in seen["environment"]
    assert "extraheader" not in seen["git"]
    assert measured.jobs == {"compare": "success"}  # nobody signs for a fork: nothing is uploaded
    assert asked_by_it == []
    assert ["1 regression" in each_comment["body"] for each_comment in hub.comments] == [True]
    assert "perf.example.com" not in hub.comments[0]["body"]


def test_a_cancelled_run_shows_as_not_run(hosted: Hosted, hub: FakeGitHub) -> None:
    proposal = hosted.propose(hosted.branch("faster", "Stop me", thing=a_thing(bytes=1200)), fork=2)

    report = hosted.report(proposal, Ran(17, "cancelled"))

    assert report.jobs == {"report": "success"}
    assert [(check["conclusion"], check["output"]["title"]) for check in hub.checks] == [
        ("neutral", "Not run")
    ]


def test_nightly_aa_runs_are_stored_and_uploaded_to_a_server(hosted: Hosted, tmp_path: Path) -> None:
    nights = [hosted.run("perf.yml", "schedule", scheduled())]
    with issuing() as issuer, a_bound_server(tmp_path, issuer) as address:
        hosted.issuer, hosted.variables = issuer, {"PERFCI_SERVER": address}
        nights.append(hosted.run("perf.yml", "schedule", scheduled()))

    assert [night.jobs for night in nights] == [
        {"aa": "success"},
        {"aa": "success", "upload": "success"},
    ]
    assert list(stored(tmp_path).values()) == ["aa"]
    assert nights[1].summary.startswith("    2 A/A runs: no false alarm in 2 verdicts")


def test_a_server_stores_the_history_of_main_but_not_of_pull_requests(
    hosted: Hosted, hub: FakeGitHub, tmp_path: Path
) -> None:
    hosted.project.git("tag", "v1.0")
    for subject in ("Second", "Third"):
        hosted.project.commit(subject)
    with issuing() as issuer, a_bound_server(tmp_path, issuer) as address:
        hosted.issuer, hosted.variables = issuer, {"PERFCI_SERVER": address}
        newest = hosted.project.git("rev-parse", "main")
        about = {
            "merged_at": "2026-03-01T11:30:00Z",
            "merge_commit_sha": newest,
            "user": {"id": 3, "login": "ada"},
        }
        hub.pulls = [pull(6) | {"body": "Perfci-Expect: peak +20% the buffer holds more"} | about]
        by_push = hosted.run("perf.yml", "push", pushed(hosted.project.git("rev-parse", "main")))
        by_hand = hosted.run("perf.yml", "workflow_dispatch", dispatched(since="v1.0", rounds="1"))
        proposal = hosted.propose(hosted.branch("faster", "Forge", thing=a_thing(bytes=1200) + FORGE))
        by_pull_request = hosted.measure(proposal, "opened")
        hosted.report(proposal, by_pull_request)

    sessions = list(stored(tmp_path).values())
    assert by_push.jobs == by_hand.jobs == {"history": "success", "upload": "success"}
    assert by_pull_request.jobs == {"compare": "success", "upload": "failure"}
    assert "answers 403: A history is written by push, schedule and workflow_dispatch" in by_pull_request.log
    assert sessions.count("history") == 2
    assert set(sessions) == {"history", "pull_request"}
    assert in_history(tmp_path) == ["Second", "Third"]
    assert expected_changes_in(tmp_path) == [(newest, "peak", "#6")]
    assert f"]({address}/acme:model/compare/" in hub.comments[0]["body"]


def test_an_order_compares_two_commits_and_its_results_are_not_uploaded(hosted: Hosted) -> None:
    base = hosted.project.git("rev-parse", "main")
    head = hosted.branch("faster", "Cost more", thing=a_thing(bytes=1200))
    hosted.variables = {"PERFCI_SERVER": "https://perf.example.com"}
    inputs = {"head": head, "base": base, "bench": "track_", "pairs": "4", "order": "3-0123abcd"}

    ran = hosted.run("perf.yml", "workflow_dispatch", dispatched(**inputs), head)

    assert ran.jobs == {"order": "success"}
    assert worse_in(hosted, ran) == ["starter.track_bytes"]


def worse_in(hosted: Hosted, ran: Ran) -> list[str]:
    """The benchmarks that a run found worse, as it handed them over."""
    findings = json.loads((hosted.artifact(ran) / "findings.json").read_text())["findings"]
    return [
        verdict["series"]["benchmark"]["name"]
        for verdict in findings["verdicts"]
        if verdict["kind"] == "regression"
    ]
