"""A repository on a GitHub of the tests, and runners for its workflows: ``act`` executes them on this
machine.

It does so in host mode, without a container: nothing that runs there is kept from anything here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from tests.support.git_project import GitProject
from tests.support.github_payloads import HERE, pull_request_event, run_of
from tests.support.loopback_issuer import SECRET, Issuer
from tests.support.pinned_actions import write_stand_ins
from tests.support.signed_job_tokens import WORKFLOW
from tests.support.stateful_github import FakeGitHub, Grant, pull
from tests.support.warm_command import warm_command

Json = dict[str, Any]

VENV = Path(sys.executable).parent
ACTIONS_APP = 15368
"""The number of the App that tokens of workflows belong to."""

HOSTED = ("ubuntu-latest", "ubuntu-24.04")

PIP = """\
#!/bin/bash
# Stands in for pip: perfci is on the PATH from here on.
echo "$@" >> "$HUB/installed"
ln -sf {perfci} "$(dirname "$0")"
"""


@dataclass
class Ran:
    """What became of a run of a workflow. A job that was skipped is not among ``jobs``."""

    number: int
    ended: str
    jobs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    summary: str = ""
    log: str = ""


class Hosted:
    """``project`` is the repository as GitHub has it: a pull request is a branch of it that no clone asks
    for.
    """

    def __init__(self, folder: Path, hub: FakeGitHub, api: str, issuer: Issuer | None = None) -> None:
        self.folder, self.hub, self.api, self.issuer = folder, hub, api, issuer
        self.project = GitProject(folder / "repository")
        self.project.git("config", "uploadpack.allowAnySHA1InWant", "true")
        self.variables: dict[str, str] = {}
        for name in ("artifacts", "caches", "home"):
            (folder / name).mkdir()
        self._stand_ins = write_stand_ins(folder / "actions")
        self._numbers = count(1)

    def propose(self, head: str, *, fork: int = 1, number: int = 7) -> Json:
        """A pull request that brings a commit to main, at the commit that GitHub made of both."""
        target = self.project.git("rev-parse", "main")
        merged = self.project.git("commit-tree", f"{head}^{{tree}}", "-p", target, "-p", head, "-m", "Merge")
        self.project.git("update-ref", f"refs/pull/{number}/merge", merged)
        proposal = pull(number, head, repository=fork)
        proposal["base"]["sha"] = target
        proposal["merge_commit_sha"] = merged
        self.hub.pulls = [each_pull for each_pull in self.hub.pulls if each_pull["number"] != number] + [
            proposal
        ]
        return proposal

    def branch(self, name: str, subject: str, **files: str) -> str:
        """One more commit on a branch; what main has meanwhile is not in it."""
        exists = name in self.project.git("branch", "--format=%(refname:short)").splitlines()
        self.project.git("checkout", "--quiet", *([] if exists else ["-b"]), name)
        sha = self.project.commit(subject, **files)
        self.project.git("checkout", "--quiet", "main")
        return sha

    def measure(self, proposal: Json, action: str = "synchronize") -> Ran:
        """A pull request has the workflow files of its own merge commit run."""
        return self.run(
            "perf.yml", "pull_request", pull_request_event(proposal, action), proposal["merge_commit_sha"]
        )

    def report(self, proposal: Json, measured: Ran, action: str = "completed") -> Ran:
        event = run_of(proposal, measured.number, measured.ended or None, action)
        return self.run("perf-report.yml", "workflow_run", event)

    def run(self, workflow: str, kind: str, event: Json, sha: str = "") -> Ran:
        """Without a commit it is the newest of main, as for every event that belongs to no commit."""
        number, sha = next(self._numbers), sha or self.project.git("rev-parse", "main")
        place = self.folder / f"run-{number}"
        path = self._checked_out(place / "files", sha, workflow)
        assert _listens(path, kind, event), f"{workflow} does not listen to {kind} {event.get('action', '')}"
        (place / "event.json").write_text(json.dumps(event))
        messages = [
            "--eventpath",
            str(place / "event.json"),
            "--secret",
            f"GITHUB_TOKEN={self._token(number, path, event)}",
        ]
        if self.issuer is not None and not _is_of_fork(event):
            self.issuer.job = _claims(kind, event, number, sha)
            _let_sign(path, self.issuer)
        done = subprocess.run(
            [*self._act(kind, path, number), *messages],
            cwd=place / "files",
            env=self._environment(place),
            timeout=3600,
            capture_output=True,
            text=True,
            check=False,
        )
        return _read(Ran(number, "success" if done.returncode == 0 else "failure"), done.stdout + done.stderr)

    def artifact(self, ran: Ran, name: str = "perfci-results") -> Path:
        return self.folder / "artifacts" / str(ran.number) / name

    def keep_artifact(self, proposal: Json, ran: Ran) -> None:
        """GitHub packs what a run handed over, and gives it to whoever may read."""
        packed = shutil.make_archive(str(self.folder / "artifact"), "zip", self.artifact(ran))
        self.hub.artifact, self.hub.measured = Path(packed).read_bytes(), [proposal["head"]["sha"]]

    def _checked_out(self, place: Path, sha: str, workflow: str) -> Path:
        """What act reads the workflow and the names of commit and repository from; no job sees this
        folder.
        """
        place.parent.mkdir()
        self.project.git("clone", "--quiet", "--no-checkout", ".", str(place))
        clone = GitProject(place)
        clone.git("remote", "set-url", "origin", f"https://github.com/{HERE['full_name']}")
        clone.git("fetch", "--quiet", str(self.project.folder), sha)
        clone.git("checkout", "--quiet", "--detach", sha)
        folder = place / ".github" / "workflows"
        for path in folder.iterdir():
            path.write_text(_as_act_reads_it(path.read_text()))
        return folder / workflow

    def _token(self, number: int, path: Path, event: Json) -> str:
        """The token of a run may do what its jobs ask for; of a fork, it only reads."""
        request: dict[str, str] = {}
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            request |= job.get("permissions", {})
        values = {
            name.replace("-", "_"): "read" if _is_of_fork(event) else may for name, may in request.items()
        }
        token = f"ghs_ofRun{number}"
        self.hub.tokens[token] = Grant("github-actions[bot]", {"metadata": "read", **values}, app=ACTIONS_APP)
        return token

    def _act(self, kind: str, path: Path, number: int) -> list[str]:
        command = [str(VENV / "act"), kind, "--workflows", str(path), "--json", "--concurrent-jobs", "1"]
        command += ["--no-skip-checkout", "--no-cache-server", "--action-offline-mode"]
        command += ["--env", f"GITHUB_API_URL={self.api}", "--env", f"GITHUB_RUN_ID={number}"]
        for label in HOSTED:
            command += ["--platform", f"{label}=-self-hosted"]
        for action, folder in self._stand_ins.items():
            command += ["--local-repository", f"{action}={folder}"]
        for name, value in self.variables.items():
            command += ["--var", f"{name}={value}"]
        return command

    def _environment(self, place: Path) -> dict[str, str]:
        """What all steps see; of this machine nothing but where its programs lie and whose turn it is to
        measure.
        """
        tools = place / "bin"
        tools.mkdir()
        (tools / "pip").write_text(PIP.format(perfci=warm_command()))
        (tools / "pip").chmod(0o755)
        others = [item for item in os.environ["PATH"].split(":") if not (Path(item) / "perfci").exists()]
        return {
            "PATH": ":".join([str(tools), *others]),
            "HOME": str(self.folder / "home"),
            "XDG_CACHE_HOME": str(place / "cache"),
            "TMPDIR": str(place),
            "PERFCI_LOCK": os.environ["PERFCI_LOCK"],
            "PYTHONDONTWRITEBYTECODE": "1",
            "HUB": str(self.folder),
        }


def _as_act_reads_it(workflow: str) -> str:
    """It has another name for what lies in the repository itself, and knows no queue of a concurrency
    group.
    """
    return re.sub(r"^ +queue: max\n", "", workflow, flags=re.M)


def _listens(path: Path, kind: str, event: Json) -> bool:
    """act starts a workflow whatever it is told to; GitHub looks at what the workflow listens to."""
    listened: Json = yaml.load(path.read_text(), yaml.BaseLoader)["on"]
    request = listened.get(kind) if isinstance(listened.get(kind), dict) else {}
    action, followed = event.get("action"), event.get("workflow_run", {}).get("name")
    return (
        kind in listened
        and action in request.get("types", [action])
        and followed in request.get("workflows", [followed])
    )


def _is_of_fork(event: Json) -> bool:
    return "pull_request" in event and event["pull_request"]["head"]["repo"]["id"] != HERE["id"]


def _claims(kind: str, event: Json, number: int, sha: str) -> Json:
    """What GitHub signs of a run."""
    ref = f"refs/pull/{event['number']}/merge" if kind == "pull_request" else "refs/heads/main"
    workflow = f"{HERE['full_name']}/{WORKFLOW}@{ref}"
    return {"event_name": kind, "ref": ref, "sha": sha, "run_id": str(number), "job_workflow_ref": workflow}


def _let_sign(path: Path, issuer: Issuer) -> None:
    """A job that may ask GitHub to sign what it is has two more variables; act knows nothing of this."""
    text = f"    env:\n      ACTIONS_ID_TOKEN_REQUEST_URL: {issuer.ask_at}\n"
    text += f"      ACTIONS_ID_TOKEN_REQUEST_TOKEN: {SECRET}\n"
    path.write_text(
        re.sub(r"^      id-token: write.*\n", lambda result: result[0] + text, path.read_text(), flags=re.M)
    )


def _read(ran: Ran, log: str) -> Ran:
    for line in log.splitlines():
        if not line.startswith("{"):
            continue
        record = json.loads(line)
        if "jobResult" in record:
            ran.jobs[record["jobID"]] = record["jobResult"]
        if record.get("command") == "set-output":
            ran.outputs[record["name"]] = record["arg"]
        if record.get("command") == "summary":
            ran.summary += record["content"]
        ran.log += record["msg"] if record.get("raw_output") else f"{record['msg']}\n"
    return ran
