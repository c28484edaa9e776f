"""What a pull request uploads is shown as its comparison, and says nothing about the main branch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from github_jobs import ORIGIN, Jobs, measured

from perfci.model import Clock, Process, Role, Run
from perfci.project_policies import ProjectPolicies
from perfci.service.worker.judge_worker import JudgeWorker
from perfci.store import Store
from perfci.store.incidents.incident_store import load_incidents
from perfci.store.projects import find_project
from perfci.store.queries import project_status
from perfci.store.queries.judging_inputs import load_judged_series_ids
from perfci.store.verdict_decision_records import load_aa_results_by_series
from perfci.store.verdicts_and_change_points import load_verdict_records
from tests.support.builders import (
    NOON,
    PROJECT,
    a_commit,
    a_machine,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
)
from tests.support.signed_job_tokens import NOW, a_job, of_pull_request

STEP = 21
"""The commit that made the benchmark slower by a third; the commits before and after it are the main line."""


@pytest.fixture
def worker(jobs: Jobs, store: Store) -> JudgeWorker:
    """A server with a regression on its main branch, and what judges uploads."""
    upload_history(jobs)
    worker = JudgeWorker(store, lambda _: ProjectPolicies(), clock=lambda: NOW)
    worker.drain()
    return worker


def pairs(role: Role, level: float, **changes: Any) -> list[Process]:
    chance = random.Random(role.value)
    return [
        a_process(level * chance.gauss(1, 0.002), role=role, pair=k, index=k, order=0, **changes)
        for k in range(20)
    ]


def send_comparison(
    jobs: Jobs, claims: dict[str, Any], levels: Sequence[float], base: int = STEP - 1, head: int = STEP
) -> None:
    """Upload twenty pairs as a job of these claims."""
    job = jobs.job(claims)
    for role, level, number in zip((Role.BASE, Role.HEAD), levels, (base, head), strict=True):
        assert job.send(a_step(f"pairs of {claims['jti']}", number, *pairs(role, level))) == (201, "")


def a_step(session: str, number: int, *processes: Process) -> Run:
    """What a step of a job measured of a commit."""
    return measured(
        *processes,
        commit=a_commit(number),
        session=session,
        started_at=NOON + timedelta(hours=number),
        origin=(*ORIGIN, ("step", session)),
    )


def upload_history(jobs: Jobs) -> None:
    chance = random.Random(7)
    for number in range(1, 31):
        level = 1.3 if number >= STEP else 1.0
        processes = [a_process(level * chance.gauss(1, 0.002), index=k) for k in range(3)]
        assert jobs.upload(a_step(f"nightly-{number}", number, *processes)).status_code == 201


def incident_kinds(store: Store) -> dict[str, str]:
    with store.read() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        return {item.commit: item.kind for item in load_incidents(tx, project.id)}


def current_kinds(store: Store, **choice: Any) -> list[str]:
    with store.read() as tx:
        return [record.verdict.kind.value for record in load_verdict_records(tx, PROJECT, **choice)]


def test_a_pull_request_cannot_acquit_a_commit_of_main(jobs: Jobs, store: Store, worker: JudgeWorker) -> None:
    assert incident_kinds(store) == {a_sha(STEP): "regression"}

    send_comparison(jobs, of_pull_request(12, jti="acquits"), (1.0, 1.0))
    worker.drain()

    assert incident_kinds(store) == {a_sha(STEP): "regression"}
    assert current_kinds(store) == []
    assert current_kinds(store, with_pull_requests=True) == ["unchanged"]
    comparison = jobs.get(f"/projects/acme:model/comparisons/{a_sha(STEP - 1)}...{a_sha(STEP)}").json
    assert comparison["counts"] == {"unchanged": 1}


def test_a_pull_request_cannot_convict_a_commit_of_main(
    jobs: Jobs, store: Store, worker: JudgeWorker
) -> None:
    send_comparison(jobs, of_pull_request(12, jti="convicts"), (1.0, 1.5), base=9, head=10)
    worker.drain()

    assert incident_kinds(store) == {a_sha(STEP): "regression"}
    with store.read() as tx:
        assert project_status.count_changes_and_undecided_verdicts(tx, PROJECT).has_verdicts is False


def test_a_head_that_is_merged_later_is_not_acquitted_by_its_own_pull_request(
    jobs: Jobs, store: Store
) -> None:
    send_comparison(jobs, of_pull_request(12, jti="early"), (1.0, 1.0))
    judge = JudgeWorker(store, lambda _: ProjectPolicies(), clock=lambda: NOW)
    judge.drain()

    upload_history(jobs)
    judge.drain()

    assert incident_kinds(store) == {a_sha(STEP): "regression"}


def test_a_push_to_another_branch_says_nothing_about_main(
    jobs: Jobs, store: Store, worker: JudgeWorker
) -> None:
    ref = "refs/heads/feature"
    workflow = f"acme/model/.github/workflows/perf.yml@{ref}"
    claims = a_job(ref=ref, job_workflow_ref=workflow, sha=a_sha(STEP), jti="branch")

    send_comparison(jobs, claims, (1.0, 1.0))
    worker.drain()

    assert incident_kinds(store) == {a_sha(STEP): "regression"}


def test_pairs_of_a_job_of_main_outrank_those_of_a_pull_request(
    jobs: Jobs, store: Store, worker: JudgeWorker
) -> None:
    of_main = a_job(event_name="workflow_dispatch", jti="of main", run_id="4711")
    send_comparison(jobs, of_pull_request(12, jti="before"), (1.0, 1.0))
    worker.drain()
    send_comparison(jobs, of_main, (1.0, 1.3))
    worker.drain()
    send_comparison(jobs, of_pull_request(12, jti="after"), (1.0, 1.0))
    worker.drain()

    assert current_kinds(store, with_pull_requests=True) == ["regression"]
    assert incident_kinds(store) == {a_sha(STEP): "regression"}


def test_a_pull_request_sets_no_noise_floor_and_no_clock_of_main(
    jobs: Jobs, store: Store, worker: JudgeWorker
) -> None:
    job = jobs.job(of_pull_request(12, jti="noise"))
    same = [*pairs(Role.BASE, 1.0), *pairs(Role.HEAD, 3.0)]
    hidden = [*pairs(Role.BASE, 1.0, clock=Clock.INFORMATIONAL)]
    assert job.send(a_step("one commit twice", STEP, *same))[0] == 201
    assert job.send(a_step("not judged", STEP, *hidden))[0] == 201

    worker.drain()

    with store.read() as tx:
        assert load_aa_results_by_series(tx, PROJECT) == {}
        assert len(load_judged_series_ids(tx, PROJECT)) == 1


def test_names_of_a_pull_request_stay_out_of_the_lists(jobs: Jobs, store: Store, worker: JudgeWorker) -> None:
    series, machine = a_series("UNRELEASED.model_v9.step"), a_machine("UNRELEASED cpu")
    result = a_result(replace(series, machine=machine), *pairs(Role.HEAD, 1.0))
    run = a_run(result, machine=machine, commit=a_commit(40), session="secret", origin=ORIGIN)
    assert jobs.job(of_pull_request(12, jti="names")).send(run) == (201, "")

    lists = [jobs.get(f"/projects/acme:model/{name}").text for name in ("series", "machines", "environments")]
    pages = ["benchmarks", "benchmarks.json", "benchmarks.csv", "", "s/UNRELEASED/step"]
    lists += [jobs.client.get(f"/acme:model/{page}").text for page in pages]

    assert [text.count("UNRELEASED.model") + text.count("UNRELEASED cpu") for text in lists] == [0] * 8
    assert "training.Step.time_step" in lists[0]
