"""Jobs of GitHub get tokens for what they measured, and write nothing else with them."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from api_client import Api
from github_jobs import BASE, BOUND, HEAD, HERE, ORIGIN, Job, Jobs, measured

from perfci.auth.github_job_authorization import NOT_BOUND
from perfci.auth.tokens import hash_token_if_valid
from perfci.model import Commit
from perfci.net import jwks as door
from perfci.net.api_client import ApiClient, ApiError
from perfci.net.api_schemas.projects_and_access import NewRepositoryBinding
from perfci.net.http_client import build_wsgi_transport, open_http_client
from perfci.store import Store
from perfci.store.projects import create_project
from perfci.store.queries import (
    runs_and_sessions,
    series_commits_machines,
)
from tests.support.builders import PROJECT, a_commit
from tests.support.signed_job_tokens import (
    NOW,
    REPOSITORY_ID,
    WORKFLOW,
    a_job,
    of_pull_request,
)


def kinds(store: Store) -> dict[str, str]:
    with store.read() as tx:
        return {session.uid: session.kind for session in runs_and_sessions.load_sessions(tx, PROJECT)}


def test_gives_a_job_a_token_that_writes_its_history(jobs: Jobs, store: Store) -> None:
    answer = jobs.exchange(a_job())
    job = Job(jobs, answer.json["secret"])

    assert (answer.status_code, answer.json["may_write_history"]) == (201, True)
    assert (job.text[:6], bool(hash_token_if_valid(job.text))) == ("pfcir_", True)
    assert datetime.fromisoformat(answer.json["expires_at"]) == NOW + timedelta(minutes=15)
    assert job.send(measured(session="of main")) == (201, "")
    assert kinds(store) == {"of main": "history"}


def test_records_job_tokens_in_the_audit_log(jobs: Jobs) -> None:
    jobs.job(a_job()).send(measured())

    actors, actions, _ = zip(*jobs.audit(), strict=True)
    assert actions == ("repository.bind", "job.admit", "run.receive")
    assert actors[:2] == ("local", f"github-repository/{REPOSITORY_ID}")
    assert actors[2].startswith("token:")


def test_lets_a_job_record_expected_changes_of_its_own_commit_only(jobs: Jobs) -> None:
    body = {
        "commit": a_job()["sha"],
        "source": "#12",
        "items": [{"match": "peak", "relative_change": 0.03, "reason": "meant"}],
    }
    ask = partial(jobs.client.post, "/api/v1/projects/acme:model/expected-changes")

    pushed, proposed = jobs.job(a_job()), jobs.job(of_pull_request(jti="b"))
    replies = [ask(json=body, headers=item.headers) for item in (pushed, proposed)]
    other = ask(json=body | {"commit": "f" * 40}, headers=pushed.headers)

    assert [(reply.status_code, reply.json.get("added")) for reply in (*replies, other)] == [
        (200, 1),
        (403, None),
        (403, None),
    ]
    assert jobs.audit()[-1][1:] == ("expected_change.record", f"#12 at {body['commit'][:12]}")


def test_allows_no_reads_with_a_job_token(jobs: Jobs) -> None:
    job = jobs.job(a_job())

    status_codes = [
        jobs.get(path, headers=job.headers).status_code for path in ("/projects/acme:model", HERE)
    ]

    assert status_codes == [403, 403]


def test_expires_a_job_token_after_a_quarter_of_an_hour(jobs: Jobs) -> None:
    job = jobs.job(a_job())

    jobs.now += timedelta(minutes=15)

    assert job.send(measured()) == (401, "The token is not valid: it is unknown, expired or revoked.")


def test_answers_unknown_jobs_alike_for_every_project(jobs: Jobs, store: Store) -> None:
    with store.begin() as tx:
        create_project(tx, "acme/unbound", "private", NOW)
    foreign = {"repository": "rival/own", "repository_id": "7", "repository_owner_id": "8"}
    requests = [(PROJECT, "a"), ("acme/unbound", "b"), ("acme/none", "c")]

    exchanges = [jobs.exchange(a_job(**foreign, jti=jti), to=slug) for slug, jti in requests]

    assert {
        (exchange.status_code, exchange.json["detail"], exchange.json["type"]) for exchange in exchanges
    } == {(403, NOT_BOUND, "/api/problems/forbidden")}


def test_records_the_reason_of_a_refusal_once_a_day(jobs: Jobs) -> None:
    bad = {"event_name": "pull_request_target"}
    for jti in ("a", "b"):
        jobs.exchange(a_job(**bad, jti=jti))
    jobs.exchange(a_job(job_workflow_ref="acme/model/.github/workflows/x.yml@refs/heads/main"))
    jobs.exchange(a_job(), to="acme/none")

    job = f"github-repository/{REPOSITORY_ID}"
    assert jobs.audit()[1:] == [(job, "job.refuse.event", PROJECT), (job, "job.refuse.workflow", PROJECT)]
    assert jobs.audit("acme/none") == [(job, "job.refuse.unbound", "acme/none")]


def test_logs_an_unsigned_token_without_an_audit_entry(jobs: Jobs, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="perfci.jobs")

    answer = jobs.client.post("/api/v1/oidc/token", json={"project": PROJECT, "token": "a.b.c"})

    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert [record.getMessage() for record in caplog.records if record.name == "perfci.jobs"] == [
        "a job's token is refused: shape"
    ]
    assert [action for _, action, _ in jobs.audit()] == ["repository.bind"]


def test_accepts_an_oidc_token_once(jobs: Jobs) -> None:
    jobs.exchange(a_job())

    again = jobs.exchange(a_job())

    assert (again.status_code, again.json["detail"]) == (403, NOT_BOUND)
    assert jobs.audit()[-1][1] == "job.refuse.replay"


def test_accepts_a_renamed_repository(jobs: Jobs) -> None:
    renamed = a_job(repository="acme/models", job_workflow_ref=f"acme/models/{WORKFLOW}@refs/heads/main")

    assert jobs.exchange(renamed).status_code == 201

    assert jobs.get(HERE).json["repository"] == "acme/models"
    assert jobs.audit()[-2][1:] == ("repository.rename", "acme/models")


def test_accepts_a_transferred_repository_once_it_is_bound_again(jobs: Jobs) -> None:
    before = jobs.exchange(a_job(repository_owner_id="99", jti="a")).status_code

    jobs.bind(owner_id=99)

    assert (before, jobs.exchange(a_job(repository_owner_id="99", jti="b")).status_code) == (403, 201)


def test_lets_a_pull_request_write_comparisons_and_no_history(jobs: Jobs, store: Store) -> None:
    job = jobs.job(of_pull_request(12))

    sent = [
        job.send(measured(BASE, session="pr", commit=a_commit(5))),
        job.send(measured(HEAD, session="pr", commit=a_commit(6))),
        job.send(measured(session="plain", commit=a_commit(7))),
    ]

    assert [status for status, _ in sent] == [201, 201, 403]
    assert sent[2][1].startswith("A history is written by push, schedule and workflow_dispatch")
    assert kinds(store) == {"pr": "pull_request"}


def test_lets_no_pull_request_change_stored_commits(jobs: Jobs, store: Store) -> None:
    jobs.job(a_job(jti="push")).send(measured(session="of main"))
    job = jobs.job(of_pull_request(12))
    lies: dict[str, Any] = {
        "subject": "Poisoned",
        "position": 99,
        "branch": "evil",
        "parents": (a_commit(8).sha,),
    }

    sent = [
        job.send(
            measured(BASE, session="pr", commit=a_commit(1, **lies), origin=(*ORIGIN, ("step", "pairs")))
        ),
        job.send(measured(HEAD, session="pr", commit=a_commit(6, **lies))),
    ]

    assert [status for status, _ in sent] == [201, 201]
    with store.read() as tx:
        commits = series_commits_machines.load_commits_by_sha(tx, PROJECT, [a_commit(1).sha, a_commit(6).sha])
    assert commits[a_commit(1).sha] == a_commit(1)
    assert commits[a_commit(6).sha] == Commit(a_commit(6).sha, subject="Poisoned")


def test_lets_a_push_to_another_ref_write_no_history(jobs: Jobs, store: Store) -> None:
    ref = "refs/heads/feature"
    job = jobs.job(a_job(ref=ref, job_workflow_ref=f"acme/model/{WORKFLOW}@{ref}"))

    assert job.send(measured())[0] == 403
    assert job.send(measured(HEAD, session="pairs"))[0] == 201
    assert kinds(store) == {"pairs": "pull_request"}


def test_lets_a_job_write_its_commit_and_bases_of_comparisons(jobs: Jobs) -> None:
    job = jobs.job(a_job())

    assert job.send(measured(BASE, session="pairs", commit=a_commit(9)))[0] == 201
    assert job.send(measured(HEAD, session="pairs", commit=a_commit(8)))[0] == 403
    assert job.send(measured(session="older", commit=a_commit(9))) == (
        403,
        "This token is for the commit 00000001cccc, and the document is of 00000009cccc: only the base of a "
        "comparison may be another commit. Older ones are for runs that were started by hand on a bound "
        "ref, and for tokens "
        "of `perfci token create`.",
    )


def test_lets_a_manual_job_upload_older_commits_and_their_pairs(jobs: Jobs, store: Store) -> None:
    job = jobs.job(a_job(event_name="workflow_dispatch"))

    assert job.send(measured(session="older", commit=a_commit(9)))[0] == 201
    assert job.send(measured(BASE, session="pairs", commit=a_commit(7)))[0] == 201
    assert job.send(measured(HEAD, session="pairs", commit=a_commit(8)))[0] == 201
    assert kinds(store) == {"older": "history", "pairs": "compare"}


def test_lets_a_manual_job_on_another_ref_upload_no_older_commits(jobs: Jobs) -> None:
    ref = "refs/heads/feature"
    fields = {"ref": ref, "job_workflow_ref": f"acme/model/{WORKFLOW}@{ref}"}
    job = jobs.job(a_job(event_name="workflow_dispatch", **fields))

    status, detail = job.send(measured(HEAD, session="pairs", commit=a_commit(8)))

    assert (status, detail.partition(":")[0]) == (
        403,
        "This token is for the commit 00000001cccc, and the document is of 00000008cccc",
    )


@pytest.mark.parametrize(
    "origin",
    [
        {},
        {"run_id": "4712"},
        {"attempt": "3"},
        {"attempt": "0"},
        {"attempt": "²"},
        {"run_id": "4711", "attempt": ""},
    ],
)
def test_lets_a_job_write_only_what_its_run_measured(jobs: Jobs, origin: dict[str, str]) -> None:
    result = tuple((dict(ORIGIN) | origin).items()) if origin else ()
    job = jobs.job(a_job(run_attempt="2"))

    status, detail = job.send(measured(origin=tuple((name, value) for name, value in result if value)))

    assert status == 403
    assert detail.startswith(
        "This token is for what the run 4711 of GitHub Actions measured until its attempt 2"
    )


def test_lets_a_retried_job_upload_runs_of_an_earlier_attempt(jobs: Jobs) -> None:
    assert jobs.job(a_job(run_attempt="2")).send(measured()) == (201, "")


def test_lets_no_job_join_a_session_of_another_origin(jobs: Jobs) -> None:
    jobs.upload(measured(BASE, session="nightly", origin=(("run_id", "1"), ("attempt", "1"))))

    status, detail = jobs.job(of_pull_request()).send(measured(HEAD, session="nightly", commit=a_commit(6)))

    assert (status, detail.partition(":")[0]) == (
        403,
        "The session nightly belongs to another origin than this token",
    )


def test_lets_a_job_write_to_its_own_project_only(jobs: Jobs, store: Store) -> None:
    with store.begin() as tx:
        create_project(tx, "acme/other", "private", NOW)

    assert jobs.job(a_job()).send(measured(project="acme/other"))[0] == 404


def test_ends_the_tokens_of_jobs_when_a_repository_is_unbound(jobs: Jobs) -> None:
    job = jobs.job(a_job())

    assert jobs.client.delete(f"/api/v1{HERE}").status_code == 204

    assert job.send(measured())[0] == 401
    assert [jobs.get(HERE).status_code, jobs.client.delete(f"/api/v1{HERE}").status_code] == [404, 404]
    assert jobs.audit()[-1][1] == "repository.unbind"


def test_returns_the_bound_repository(jobs: Jobs) -> None:
    jobs.bind(environment="perf", refs=["main", "refs/tags/v1"])

    assert jobs.get(HERE).json == BOUND | {"environment": "perf", "refs": ["refs/heads/main", "refs/tags/v1"]}


def test_binds_by_the_typed_client(jobs: Jobs) -> None:
    with closing(open_http_client("http://localhost:8787", transport=build_wsgi_transport(jobs.app))) as way:
        client = ApiClient(way)

        bound = client.bind_repository(
            PROJECT, NewRepositoryBinding(repository="acme/b", repository_id=1, owner_id=2)
        )
        repository_binding = client.get_repository_binding(PROJECT)
        client.unbind_repository(PROJECT)

        assert bound == repository_binding
        assert (repository_binding.repository, repository_binding.workflow, repository_binding.refs) == (
            "acme/b",
            WORKFLOW,
            ("refs/heads/main",),
        )
        with pytest.raises(ApiError, match="This project is bound to no repository"):
            client.get_repository_binding(PROJECT)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"repository": "acme"}, "A repository is named as OWNER/NAME, not as 'acme'."),
        (
            {"workflow": "perf.yml"},
            "A workflow is named by its file, .github/workflows/perf.yml, or where another repository holds "
            "it, OWNER/NAME/.github/workflows/perf.yml, not as 'perf.yml'.",
        ),
        ({"refs": ["refs/pull/1/merge"]}, "A branch (main) or a whole ref (refs/tags/v1) was expected, not "),
    ],
)
def test_refuses_invalid_bindings(jobs: Jobs, changes: dict[str, Any], sentence: str) -> None:
    answer = jobs.bind(**changes)

    assert (answer.status_code, answer.json["detail"].startswith(sentence)) == (409, True)


def test_requires_a_public_url_for_job_tokens(api: Api) -> None:
    answer = api.client.post("/api/v1/oidc/token", json={"project": PROJECT, "token": "a.b.c"})

    assert (answer.status_code, answer.json["detail"]) == (
        409,
        "This server takes no tokens of GitHub's jobs: its operator has not set [server] public_url.",
    )


def test_answers_503_while_the_issuer_is_unreachable(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "_download_keys", lambda issuer, transport: b"")

    answer = jobs.exchange(a_job())

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")


def test_asks_no_issuer_while_nothing_is_bound(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(issuer: str, transport: object) -> bytes:
        raise AssertionError("the issuer was asked")

    monkeypatch.setattr(door, "_download_keys", fail)
    unbound = jobs.client.delete("/api/v1/projects/acme:model/repository")

    assert (unbound.status_code, jobs.exchange(a_job()).status_code) == (204, 401)
