"""``perfci github``: the jobs of a pull request, with real commits and a stateful fake of GitHub."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from perfci.cli import run_cli
from perfci.cli.compare.commits import measure_and_judge_commits
from perfci.formats import run_document
from perfci.github.client import open_github_client
from perfci.model import PerfciError, Role
from tests.support.git_project import GitProject
from tests.support.github_payloads import dispatched
from tests.support.stateful_github import FakeGitHub, Grant, comment, pull

SUITE = """
    import thing

    def track_bytes():
        return thing.BYTES
    track_bytes.unit, track_bytes.metric, track_bytes.clock = "bytes", "peak", "exact"
"""
ALWAYS = {"metadata": "read"}
WORKFLOW = Grant(
    "github-actions[bot]",
    ALWAYS | {"pull_requests": "write", "checks": "write", "actions": "read"},
    app=15368,
)


@dataclass
class Job:
    """A job of GitHub Actions, in a clone where main went on after the pull request was branched off."""

    project: GitProject
    monkeypatch: pytest.MonkeyPatch
    target: str = ""
    head: str = ""

    def set_event(self, name: str, event: dict[str, Any], **variables: str) -> None:
        place = self.project.folder.parent
        (place / "event.json").write_text(json.dumps(event))
        fields = {
            "ACTIONS": "true",
            "EVENT_NAME": name,
            "EVENT_PATH": str(place / "event.json"),
            "REPOSITORY": "acme/model",
            "RUN_ID": "17",
            "RUN_ATTEMPT": "1",
            "JOB": "bench",
            "STEP_SUMMARY": str(place / "summary.md"),
            "OUTPUT": str(place / "outputs"),
            **variables,
        }
        for key, value in fields.items():
            self.monkeypatch.setenv(f"GITHUB_{key}", value)

    def pull_request_event(self, **changes: Any) -> dict[str, Any]:
        """The event of the pull request."""
        proposal = pull(head=self.head) | changes
        proposal["base"] = {**proposal["base"], "sha": self.target}
        return {
            "action": "synchronize",
            "number": 7,
            "pull_request": proposal,
            "repository": {"id": 1, "full_name": "acme/model"},
            "sender": {"id": 3, "login": "ada"},
        }

    @property
    def summary(self) -> str:
        return (self.project.folder.parent / "summary.md").read_text()

    @property
    def outputs(self) -> str:
        return (self.project.folder.parent / "outputs").read_text()


@pytest.fixture(scope="module")
def branched(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """What all jobs of a module begin with."""
    project = GitProject(tmp_path_factory.mktemp("branched"))
    project.commit("Begin", thing="BYTES = 1000\n", benchmarks__suite=SUITE)
    project.git("checkout", "--quiet", "-b", "faster")
    head = project.commit("Cache more", thing="BYTES = 1200\n")
    project.git("checkout", "--quiet", "main")
    target = project.commit("Go on elsewhere", other="X = 1\n")
    project.git("checkout", "--quiet", "--detach", head)
    return Job(project, pytest.MonkeyPatch(), target, head)


@pytest.fixture
def job(branched: Job, working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    shutil.copytree(branched.project.folder, working_folder, dirs_exist_ok=True)
    return replace(branched, project=GitProject(working_folder), monkeypatch=monkeypatch)


@pytest.fixture(scope="module")
def results(branched: Job, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pull request was measured to be, once for all that is done with it."""
    folder = tmp_path_factory.mktemp("measured") / "here"
    shutil.copytree(branched.project.folder, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERFCI_LOCK", str(tmp_path_factory.getbasetemp() / "machine.lock"))
        patch.chdir(folder)
        job = replace(branched, project=GitProject(folder), monkeypatch=patch)
        job.set_event("pull_request", job.pull_request_event())
        assert run_cli(["github", "compare"]) == 0
    return folder / "perfci-results"


@pytest.fixture
def measured(job: Job, results: Path) -> None:
    """`perfci github compare` ran in this job."""
    shutil.copytree(results, job.project.folder / "perfci-results")


@pytest.fixture
def github(hub: FakeGitHub, job: Job) -> FakeGitHub:
    hub.pulls = [pull(head=job.head)]
    hub.tokens = {"t0ken": WORKFLOW}
    job.monkeypatch.setattr(
        "perfci.cli.github.commands.open_github_client",
        lambda token, url: open_github_client(token, hub.description.base_url, transport=hub),
    )
    return hub


def test_compares_a_pull_request_with_its_merge_base(job: Job) -> None:
    job.set_event("pull_request", job.pull_request_event())

    code = run_cli(["github", "compare"])

    handed = json.loads(Path("perfci-results/findings.json").read_text())
    assert code == 0
    assert handed["base"]["subject"] == "Begin"
    assert handed["head"]["sha"] == job.head
    assert job.outputs == "verdict=worse\nregressions=1\n"
    assert job.summary.startswith("### perfci: 1 regression")


def test_compares_a_commit_given_by_hand_with_the_one_before_it(job: Job) -> None:
    inputs = {"head": "faster", "base": "", "bench": "track_", "pairs": "6", "suite": "", "order": ""}
    job.set_event("workflow_dispatch", dispatched(**inputs))

    code = run_cli(["github", "compare"])

    handed = json.loads(Path("perfci-results/findings.json").read_text())
    assert (code, handed["base"]["subject"], handed["head"]["sha"]) == (0, "Begin", job.head)
    assert (handed["findings"]["merge_base"], job.outputs) == (False, "verdict=worse\nregressions=1\n")


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({}, "started by hand without the input head"),
        ({"head": "--output=x"}, "'--output=x' is no revision"),
        ({"head": "main", "base": "$(touch x)"}, "there is no commit '$(touch x)'"),
        ({"head": "main", "bench": "["}, "'[' is not a regular expression"),
        ({"head": "main", "bench": "--results=/tmp"}, "An expression must not begin with a dash"),
        ({"head": "main", "pairs": "3"}, "4 to 200 pairs can be ordered, not 3"),
        ({"head": "main", "pairs": "1e9"}, "the input pairs is a number, not '1e9'"),
        ({"head": "main", "suite": "../other"}, "the input suite is one of default and full, or nothing"),
    ],
)
def test_refuses_invalid_inputs_of_an_order(
    job: Job, inputs: dict[str, str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job.set_event("workflow_dispatch", dispatched(**inputs))

    code = run_cli(["github", "compare"])

    assert (code, sentence in capsys.readouterr().err) == (2, True)


def test_an_order_of_a_commit_that_no_branch_has_is_answered(job: Job) -> None:
    job.set_event("workflow_dispatch", dispatched(head="f" * 40, base="e" * 40))

    code = run_cli(["github", "compare"])

    handed = json.loads(Path("perfci-results/findings.json").read_text())
    assert (code, handed["not_measured"], handed["head"]["sha"]) == (2, "broken", "f" * 40)
    assert handed["detail"].startswith(f"there is no commit '{'f' * 40}'")


def test_writes_measured_runs_to_the_artifact(job: Job) -> None:
    job.set_event("pull_request", job.pull_request_event())

    run_cli(["github", "compare"])

    runs = [run_document.read_run(path) for path in sorted(Path("perfci-results/runs").iterdir())]
    assert {run.commit.sha for run in runs} >= {job.head}
    assert (
        len({run_document.idempotency_key(run) for run in runs}) == len(runs) == 4
    )  # two commits, then fresh pairs


def test_writes_aa_runs_to_the_artifact(job: Job) -> None:
    assert run_cli(["compare", "HEAD", "HEAD", "--results", "night"]) == 0

    (document,) = Path("night/runs").iterdir()
    roles = {
        process.role for result in run_document.read_run(document).results for process in result.processes
    }
    assert roles == {Role.BASE, Role.HEAD}


def test_shows_the_drift_of_main_beside_the_pull_request(job: Job) -> None:
    job.project.git("checkout", "--quiet", "main")
    job.target = job.project.commit("Cost more elsewhere", thing="BYTES = 1500\n")
    job.project.git("checkout", "--quiet", "--detach", job.head)
    job.set_event("pull_request", job.pull_request_event())

    code = run_cli(["github", "compare", "--main"])

    assert code == 0
    assert job.outputs == "verdict=worse\nregressions=1\n"
    assert (
        f"**Main since the merge base** (now `{job.target[:10]}`): 1 series changed on main." in job.summary
    )
    assert "▲ **worse +20.0 %**, exact | ▲ **worse +50.0 %**, exact |" in job.summary


def test_does_not_measure_an_unchanged_main(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    job.target = job.project.git("merge-base", "main", job.head).strip()
    job.set_event("pull_request", job.pull_request_event())

    run_cli(["github", "compare", "--main"])

    assert "drift of the target branch" not in capsys.readouterr().out
    assert "Main since the merge base" not in job.summary


def test_reports_a_failure_before_measuring(
    job: Job, github: FakeGitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    job.set_event("pull_request", job.pull_request_event(), TOKEN="t0ken")

    codes = [run_cli(["github", "compare", "--bench", "nothing_of_that_name"]), run_cli(["github", "report"])]

    why = capsys.readouterr().err.splitlines()[0].removeprefix("perfci: ")
    assert codes == [2, 0]
    assert "nothing_of_that_name" in why
    assert job.outputs == "verdict=error\nregressions=0\n"
    assert f"`{why}`" in job.summary
    assert [f"`{why}`" in each_comment["body"] for each_comment in github.comments] == [True]
    assert [check["conclusion"] for check in github.checks] == ["neutral"]


def test_reports_the_pull_request_if_main_cannot_be_measured(
    job: Job, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def but_main(repository: Any, config: Any, base: Any, head: Any, options: Any) -> Any:
        if head.sha == job.target:
            raise PerfciError("the disk is full")
        return measure_and_judge_commits(repository, config, base, head, options)

    monkeypatch.setattr("perfci.cli.github.commands.measure_and_judge_commits", but_main)
    job.set_event("pull_request", job.pull_request_event())

    code = run_cli(["github", "compare", "--main"])

    assert (code, job.outputs) == (0, "verdict=worse\nregressions=1\n")
    assert "drift of the target branch could not be measured: the disk is full" in capsys.readouterr().err


def test_does_not_measure_identical_inputs(job: Job) -> None:
    job.project.git("checkout", "--quiet", "-b", "words", "main")
    job.head = job.project.commit("Say it better", **{"README.md": "# Model\n", "docs__guide.md": "How\n"})
    job.set_event("pull_request", job.pull_request_event())

    code = run_cli(["github", "compare"])

    assert code == 0
    assert job.outputs == "verdict=identical\nregressions=0\n"
    assert "Base and head are identical for the benchmarks: no file they depend on differs." in job.summary


@pytest.mark.usefixtures("measured")
def test_the_pull_request_gets_one_comment_and_a_check(job: Job, github: FakeGitHub) -> None:
    job.set_event("pull_request", job.pull_request_event(), TOKEN="t0ken")

    codes = [run_cli(["github", "report"]), run_cli(["github", "report"])]

    assert codes == [0, 0]
    (each_comment,), (check,) = github.comments, github.checks
    assert "1 regression" in each_comment["body"]
    assert check["conclusion"] == "neutral"
    assert len(github.writes) == 2  # the second time everything stood there


@pytest.mark.usefixtures("measured")
def test_a_gate_turns_the_check_red(job: Job, github: FakeGitHub) -> None:
    job.set_event("pull_request", job.pull_request_event(), TOKEN="t0ken")

    run_cli(["github", "report", "--gate", "block"])

    assert [check["conclusion"] for check in github.checks] == ["failure"]


@pytest.mark.usefixtures("measured")
def test_sets_an_advisory_status_without_permission_for_checks(job: Job, github: FakeGitHub) -> None:
    github.tokens = {
        "t0ken": Grant("github-actions[bot]", ALWAYS | {"pull_requests": "write", "statuses": "write"})
    }
    job.set_event("pull_request", job.pull_request_event(), TOKEN="t0ken")

    code = run_cli(["github", "report"])

    assert code == 0
    assert [(status["state"], status["description"]) for status in github.statuses] == [
        ("success", "1 regression (advisory)"),
    ]


@pytest.mark.usefixtures("measured")
def test_a_user_with_write_access_accepts_regressions(job: Job, github: FakeGitHub) -> None:
    job.set_event("pull_request", job.pull_request_event(), TOKEN="t0ken")
    run_cli(["github", "report", "--gate", "block"])
    text = f"/perfci accept {job.head[:10]} REASON"
    before = github.comments[0]["body"]
    github.comments.append(comment(50, text.replace("REASON", "the cache is meant, @everyone"), "bob"))

    run_cli(["github", "report", "--gate", "block"])

    assert text in before
    assert "**Accepted:** `bob: the cache is meant, @everyone`" in github.comments[0]["body"]
    assert text not in github.comments[0]["body"]
    assert [(check["conclusion"], check["output"]["title"]) for check in github.checks] == [
        ("success", "1 regression (accepted)"),
    ]


@pytest.mark.parametrize(
    ("line", "author", "conclusion"),
    [
        ("Perfci-Expect: peak +20% the cache is meant", "ada", "success"),
        ("Perfci-Expect: peak +3% the cache is meant", "ada", "failure"),
        ("Perfci-Expect: peak +20% the cache is meant", "mallory", "failure"),
    ],
    ids=["as expected", "larger than expected", "without write access"],
)
@pytest.mark.usefixtures("measured")
def test_compares_expected_changes_with_the_findings(
    line: str, author: str, conclusion: str, job: Job, github: FakeGitHub
) -> None:
    github.pulls[0] |= {"body": f"Keep two layers.\n\n{line}\n", "user": {"id": 3, "login": author}}
    job.set_event("pull_request", job.pull_request_event(), TOKEN="t0ken")

    run_cli(["github", "report", "--gate", "block"])

    assert [check["conclusion"] for check in github.checks] == [conclusion]
    assert "**Expected changes** declared in the pull request:" in github.comments[0]["body"]


@pytest.mark.usefixtures("measured")
def test_accepts_without_measuring_again(job: Job, github: FakeGitHub, tmp_path: Path) -> None:
    job.set_event("pull_request", job.pull_request_event(), TOKEN="t0ken")
    run_cli(["github", "report", "--gate", "block"])
    github.artifact, github.measured = zipped(Path("perfci-results/findings.json")), ["c" * 40, job.head]
    github.comments.append(comment(50, f"/perfci accept {job.head[:10]} it is meant", "bob"))
    bare = tmp_path / "bare"
    bare.mkdir()
    job.monkeypatch.chdir(bare)
    job.set_event("issue_comment", comment_event(github.comments[-1]), TOKEN="t0ken")

    code = run_cli(["github", "report", "--gate", "block"])

    assert code == 0
    assert "**Accepted:** `bob: it is meant`" in github.comments[0]["body"]
    assert [check["conclusion"] for check in github.checks] == ["success"]


def test_cannot_accept_without_results(
    job: Job, github: FakeGitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"/perfci accept {job.head[:10]} it is meant"
    job.set_event("issue_comment", comment_event(comment(50, words, "bob")), TOKEN="t0ken")

    code = run_cli(["github", "report"])

    assert (code, github.writes) == (0, [])
    assert (
        capsys.readouterr().out
        == f"acme/model#7: no results are stored for {job.head[:12]}: measure it again\n"
    )


def test_ignores_other_comments_on_a_pull_request(
    job: Job, github: FakeGitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = comment_event(comment(50, "looks good", "bob"))
    issue = comment_event(
        comment(50, f"/perfci accept {job.head[:10]} it is meant", "bob"), issue={"number": 7}
    )

    for event in (talk, issue):
        job.set_event("issue_comment", event, TOKEN="t0ken")
        assert run_cli(["github", "report"]) == 0

    assert github.received_requests == []
    assert (
        capsys.readouterr().out.splitlines() == ["this comment is not an accept command: nothing to do"] * 2
    )


@pytest.mark.parametrize(
    ("words", "login"),
    [
        ("/perfci accept HEAD it is meant", "mallory"),
        ("/perfci accept HEAD", "bob"),
        ("/perfci accept 0123456789 it is meant", "bob"),
        ("I would not /perfci accept HEAD it is meant", "bob"),
    ],
    ids=["may not write", "no reason", "another commit", "in a sentence"],
)
@pytest.mark.usefixtures("measured")
def test_only_an_accept_command_accepts(words: str, login: str, job: Job, github: FakeGitHub) -> None:
    job.set_event("pull_request", job.pull_request_event(), TOKEN="t0ken")
    github.comments.append(comment(50, words.replace("HEAD", job.head[:10]), login))

    run_cli(["github", "report", "--gate", "block"])

    assert [check["conclusion"] for check in github.checks] == ["failure"]


@pytest.mark.usefixtures("measured")
def test_outdated_results_are_reported_without_failing(
    job: Job, github: FakeGitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    job.set_event("pull_request", job.pull_request_event(), TOKEN="t0ken")
    github.pulls = [pull(head="c" * 40, repository=2)]
    capsys.readouterr()

    codes = [run_cli(["github", "report"])]
    job.set_event("workflow_run", run_event(job.head, fork=2), TOKEN="t0ken")
    codes.append(run_cli(["github", "report"]))
    github.pulls[0]["state"] = "closed"
    codes.append(run_cli(["github", "report"]))

    older = job.head[:12]
    assert capsys.readouterr().out.splitlines() == [
        f"acme/model#7 is at cccccccccccc by now and this report is about {older}: nothing was written. "
        "The newer commit gets its own report.",
        f"acme/model#7 is at cccccccccccc by now and workflow run 17 measured {older}: its result "
        "is not shown.",
        "No open pull request of acme/model comes from fork2:faster.",
    ]
    assert (codes, github.writes) == ([0, 0, 0], [])


@pytest.mark.usefixtures("measured")
def test_marks_the_comment_as_outdated_while_a_newer_commit_is_measured(job: Job, github: FakeGitHub) -> None:
    job.set_event("pull_request", job.pull_request_event(), TOKEN="t0ken")
    run_cli(["github", "report"])
    newer = "c" * 40
    github.pulls = [pull(head=newer, repository=2)]
    job.set_event(
        "workflow_run", run_event(newer, fork=2, action="requested", conclusion=None), TOKEN="t0ken"
    )

    codes = [run_cli(["github", "report", "nothing-yet"]), run_cli(["github", "report", "nothing-yet"])]

    (each_comment,), lines = github.comments, github.comments[0]["body"].splitlines()
    assert codes == [0, 0]
    assert lines[:3] == [
        "<!-- perfci report acme/model -->",
        f"<!-- at {job.head} -->",
        "> **Outdated:** there is a newer head, `cccccccccc`; its result will replace this comment.",
    ]
    assert each_comment["body"].count("Results of the older head") == 1
    assert len(github.checks) == 1  # of the older commit: nothing is known of the newer one yet


def test_a_job_without_checkout_finds_the_comment_of_the_project(
    job: Job, github: FakeGitHub, tmp_path: Path
) -> None:
    Path("perfci.toml").write_text('[project]\nname = "tiny-lm"\n')
    job.set_event("pull_request", job.pull_request_event())
    run_cli(["github", "compare"])
    results, bare = Path("perfci-results").absolute(), tmp_path / "bare"
    bare.mkdir()
    job.monkeypatch.chdir(bare)
    github.pulls = [pull(head=job.head, repository=2)]

    for where, conclusion in ((results, "success"), (bare / "nothing", "cancelled")):
        job.set_event("workflow_run", run_event(job.head, fork=2, conclusion=conclusion), TOKEN="t0ken")
        assert run_cli(["github", "report", str(where)]) == 0

    (each_comment,), (check,) = github.comments, github.checks
    assert each_comment["body"].startswith("<!-- perfci report acme/model -->")
    assert "### perfci: not run" in each_comment["body"]
    assert (check["name"], check["output"]["title"]) == ("perfci", "Not run")


@pytest.mark.usefixtures("measured")
def test_rejects_results_about_another_commit(
    job: Job, github: FakeGitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    job.set_event("pull_request", job.pull_request_event(), TOKEN="t0ken")
    job.head = "c" * 40
    job.set_event("pull_request", job.pull_request_event(), TOKEN="t0ken")

    code = run_cli(["github", "report"])

    assert code == 2
    assert github.writes == []
    assert "what was measured is about" in capsys.readouterr().err


@pytest.mark.usefixtures("measured")
def test_a_workflow_run_of_a_fork_is_resolved_through_the_api(job: Job, github: FakeGitHub) -> None:
    job.set_event("pull_request", job.pull_request_event())
    github.pulls = [pull(head=job.head, repository=2)]
    job.set_event("workflow_run", run_event(job.head, fork=2), TOKEN="t0ken")

    code = run_cli(["github", "report"])

    assert code == 0
    assert [each_comment["issue"] for each_comment in github.comments] == [7]


def test_reports_a_cancelled_job(job: Job, github: FakeGitHub) -> None:
    github.pulls = [pull(head=job.head, repository=2)]
    job.set_event("workflow_run", run_event(job.head, fork=2, conclusion="cancelled"), TOKEN="t0ken")

    code = run_cli(["github", "report"])

    assert code == 0
    assert [(check["conclusion"], check["output"]["title"]) for check in github.checks] == [
        ("neutral", "Not run")
    ]


@pytest.mark.parametrize(
    "wrong",
    ["NaN", "[" * 100_000, "{}", '{"project": 1e999}', '{"project": ' + "1" * 5000 + "}"],
    ids=["NaN", "deep", "empty", "infinite", "5,000 digits"],
)
def test_rejects_hostile_results_in_one_sentence(
    wrong: str, job: Job, github: FakeGitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    job.set_event("pull_request", job.pull_request_event(), TOKEN="t0ken")
    Path("perfci-results").mkdir()
    Path("perfci-results/findings.json").write_text(wrong)

    code = run_cli(["github", "report"])

    assert code == 2
    assert github.writes == []
    assert "is not what `perfci github compare` writes" in capsys.readouterr().err


@pytest.mark.usefixtures("measured")
def test_does_not_trust_links_in_results(job: Job, github: FakeGitHub) -> None:
    job.set_event("pull_request", job.pull_request_event(), TOKEN="t0ken")
    path = Path("perfci-results/findings.json")
    document = json.loads(path.read_text())
    document["findings"] |= {
        "report_url": "https://evil.example",
        "acceptance": "by the maintainers",
        "accept_command": "/perfci accept evil",
        "reproduce_command": ["curl", "evil"],
    }
    document["findings"] |= {"identical_inputs": True}
    path.write_text(json.dumps(document))

    run_cli(["github", "report"])

    (document,) = github.comments
    assert "evil" not in document["body"]
    assert "maintainers" not in document["body"]
    assert "Identical inputs" not in document["body"]


def test_suggests_an_alternative_outside_of_a_job(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    GitProject(working_folder).commit("Begin")

    code = run_cli(["github", "compare"])

    assert code == 2
    assert "this is not a job of GitHub Actions" in capsys.readouterr().err


def run_event(
    head: str, fork: int, conclusion: str | None = "success", action: str = "completed"
) -> dict[str, Any]:
    """The event of a workflow run that a pull request of a fork started."""
    run_of_fork = {
        "id": 17,
        "name": "perf",
        "path": ".github/workflows/perf.yml",
        "event": "pull_request",
        "status": action,
        "conclusion": conclusion,
        "head_sha": head,
        "head_branch": "faster",
        "run_attempt": 1,
        "repository": {"id": 1, "full_name": "acme/model"},
        "html_url": "https://github.com/acme/model/actions/runs/17",
        "head_repository": {"id": fork, "full_name": f"fork{fork}/model"},
    }
    return {
        "action": action,
        "workflow_run": run_of_fork,
        "repository": {"id": 1, "full_name": "acme/model"},
        "sender": {"id": 3, "login": "ada"},
    }


def comment_event(talk: dict[str, Any], **about: Any) -> dict[str, Any]:
    """The event of a comment on a pull request."""
    issue = {"number": 7, "pull_request": {"url": "https://api.github.com/repos/acme/model/pulls/7"}}
    return {
        "action": "created",
        "comment": talk,
        "sender": talk["user"],
        "issue": issue,
        **about,
        "repository": {"id": 1, "full_name": "acme/model"},
    }


def zipped(*files: Path) -> bytes:
    """An artifact as GitHub keeps it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.name)
    return packed.getvalue()
