"""Login by GitHub: the OAuth request, who is admitted, and for how long."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from access_scenario import NOW, OPEN, SECRET, fill, require_project
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from perfci.auth.permissions import LOCAL, ProjectRole
from perfci.config import Secrets, Settings
from perfci.model import PerfciError
from perfci.service.accounts import projects_members_tokens
from perfci.service.audit_context import AuditContext
from perfci.store import Store, open_store
from perfci.store.access import audit_log
from perfci_web import create_app
from perfci_web.authentication.github_login_client import MAX_LOGINS_AT_ONCE
from tests.support import loopback_github_login
from tests.support.loopback_github_login import FakeGitHub

HTTPS = "https://perf.example.com"
COOKIE = "__Host-perfci"


@pytest.fixture(scope="module")
def github() -> Iterator[FakeGitHub]:
    with loopback_github_login.served() as item:
        yield item


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path}/perfci.db", create=True)
    for slug in (SECRET, OPEN):
        fill(store, slug)
    yield store
    store.close()


class Site:
    """A server that logs in by GitHub, and a browser at it."""

    def __init__(self, store: Store, github: FakeGitHub, **access: object) -> None:
        github.number, github.name, github.orgs, github.broken = 583231, "octocat", set(), False
        github.hangs_up = False
        self.store, self.now = store, NOW
        settings = Settings.model_validate(
            {
                "access": {
                    "mode": "github",
                    "github_client_id": loopback_github_login.CLIENT,
                    "github_host": github.address,
                }
                | access,
                "server": {"public_url": HTTPS},
            }
        )
        secrets = Secrets.model_validate({"github_client_secret": loopback_github_login.SECRET})
        self.app = create_app(store, read_only=False, clock=self.clock, settings=settings, secrets=secrets)
        self.github = github
        self.browser = self.app.test_client()

    def clock(self) -> datetime:
        return self.now

    def get(self, path: str, browser: FlaskClient | None = None) -> TestResponse:
        return (browser or self.browser).get(path, base_url=HTTPS)

    def post(self, path: str, **more: object) -> TestResponse:
        return self.browser.post(path, base_url=HTTPS, **more)  # type: ignore[arg-type]

    def log_in(self, path: str = "/login/github") -> TestResponse:
        request = self.get(path)
        return self.get(self.answer_of_github(request.headers["Location"]))

    def answer_of_github(self, question: str) -> str:
        parts = urlsplit(question)
        answer = self.github.app().test_client().get(f"{parts.path}?{parts.query}")
        back = urlsplit(answer.headers["Location"])
        assert f"{back.scheme}://{back.netloc}" == HTTPS
        return f"{back.path}?{back.query}"

    def grant(self, role: ProjectRole) -> None:
        with self.store.begin() as tx:
            projects_members_tokens.set_member_role(
                tx, AuditContext(LOCAL, NOW), require_project(tx, SECRET).id, "github/583231", role
            )


@pytest.fixture
def site(store: Store, github: FakeGitHub) -> Iterator[Site]:
    site = Site(store, github)
    yield site
    site.app.extensions["perfci"].group_commit.close()


def test_requests_authorization_with_state_pkce_and_no_scope(site: Site) -> None:
    site.log_in()

    request = site.github.login_request
    assert request["redirect_uri"] == f"{HTTPS}/login/github/callback"
    assert (request["code_challenge_method"], request["client_id"], request.get("scope", "")) == (
        "S256",
        loopback_github_login.CLIENT,
        "",
    )
    assert len(request["state"]) >= 32


def test_shows_a_private_project_to_members_only_after_login(site: Site) -> None:
    before = site.get("/acme:secret/benchmarks").status_code
    site.log_in()
    without_a_role = site.get("/acme:secret/benchmarks").status_code
    site.grant(ProjectRole.READER)

    assert (before, without_a_role, site.get("/acme:secret/benchmarks").status_code) == (404, 404, 200)


def test_stores_the_login_in_a_host_only_cookie(site: Site) -> None:
    answer = site.log_in("/login/github?next=/acme:open/")

    cookie = next(item for item in answer.headers.getlist("Set-Cookie") if item.startswith(f"{COOKIE}="))
    assert answer.headers["Location"] == "/acme:open/"
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"} <= set(cookie.split("; "))
    assert "Domain" not in cookie


@pytest.mark.parametrize(
    "path", ["https://evil.example", "//evil.example", "/\\evil.example", "evil", "/\r\nx: y"]
)
def test_never_redirects_to_another_host_after_the_login(site: Site, path: str) -> None:
    answer = site.log_in(f"/login/github?{urlencode({'next': path})}")

    assert answer.headers["Location"] == "/"


def test_refuses_a_callback_that_was_begun_in_another_browser(site: Site) -> None:
    question = site.get("/login/github").headers["Location"]
    answer = site.get(site.answer_of_github(question), site.app.test_client())

    assert answer.status_code == 403
    assert COOKIE + "=" not in answer.headers.get("Set-Cookie", "")


def test_refuses_a_callback_with_another_state(site: Site) -> None:
    question = site.get("/login/github").headers["Location"]
    forged = re.sub("state=[^&]+", "state=x", site.answer_of_github(question))

    assert site.get(forged).status_code == 403


def test_identifies_users_by_id_rather_than_by_name(site: Site) -> None:
    site.grant(ProjectRole.READER)
    site.github.number = 7
    site.log_in()

    assert site.get("/acme:secret/benchmarks").status_code == 404


def test_ends_the_login_at_logout(site: Site) -> None:
    site.grant(ProjectRole.READER)
    site.log_in()
    csrf = re.search('name="csrf" value="([^"]+)"', site.get("/login").text)
    assert csrf is not None

    forged = site.post("/login/end").status_code
    assert (forged, site.get("/acme:secret/benchmarks").status_code) == (403, 200)
    ended = site.post("/login/end", data={"csrf": csrf[1]}, headers={"Origin": HTTPS}).status_code
    assert (ended, site.get("/acme:secret/benchmarks").status_code) == (302, 404)


def test_ends_the_login_after_a_week(site: Site) -> None:
    site.grant(ProjectRole.READER)
    site.log_in()
    site.now += timedelta(days=7)

    assert site.get("/acme:secret/benchmarks").status_code == 404


def test_records_logins_and_logouts_in_the_audit_log(site: Site) -> None:
    site.log_in()

    with site.store.read() as tx:
        line = audit_log.list_entries(tx, -1)[0]
    assert (line.actor, line.action, line.detail) == (
        "user:github/583231",
        "login.begin",
        {"name": "octocat"},
    )


def test_never_returns_or_stores_the_access_token_of_github(site: Site) -> None:
    answer = site.log_in()

    response_text = "".join(f"{name}: {value}" for name, value in answer.headers) + answer.text
    stored = b"".join(
        path.read_bytes() for path in Path(site.store.url.removeprefix("sqlite:///")).parent.iterdir()
    )
    cookie = site.browser.get_cookie(COOKIE, domain="perf.example.com")
    assert "gho_fake" not in response_text
    assert b"gho_fake" not in stored
    assert cookie is not None
    assert cookie.value.encode() not in stored


@pytest.fixture
def acme_site(store: Store, github: FakeGitHub) -> Iterator[Site]:
    site = Site(store, github, github_orgs=["acme"])
    yield site
    site.app.extensions["perfci"].group_commit.close()


def test_admits_members_of_the_organisation_only(acme_site: Site) -> None:
    refused = acme_site.log_in()
    acme_site.github.orgs = {"acme"}

    assert refused.status_code == 403
    assert "octocat is in none of the organisations this server is for." in refused.text
    assert acme_site.log_in().status_code == 302
    assert acme_site.github.login_request["scope"] == "read:org"


def test_logs_out_former_members_of_the_organisation_within_minutes(acme_site: Site) -> None:
    acme_site.grant(ProjectRole.READER)
    acme_site.github.orgs = {"acme"}
    acme_site.log_in()
    acme_site.github.orgs = set()

    acme_site.now += timedelta(minutes=9)
    soon = acme_site.get("/acme:secret/benchmarks").status_code
    acme_site.now += timedelta(minutes=1)
    assert (soon, acme_site.get("/acme:secret/benchmarks").status_code) == (200, 404)


def test_keeps_logins_valid_for_an_hour_while_github_is_down(acme_site: Site) -> None:
    acme_site.grant(ProjectRole.READER)
    acme_site.github.orgs = {"acme"}
    acme_site.log_in()
    acme_site.github.broken = True

    acme_site.now += timedelta(minutes=59)
    still = acme_site.get("/acme:secret/benchmarks").status_code
    acme_site.now += timedelta(minutes=1)
    assert (still, acme_site.get("/acme:secret/benchmarks").status_code) == (200, 404)


def test_asks_github_for_few_users_at_once(site: Site) -> None:
    github = site.app.extensions["perfci"].authenticator.github
    for _ in range(MAX_LOGINS_AT_ONCE):
        github._logins.acquire()
    refused = site.log_in()
    github._logins.release()

    assert refused.status_code == 403
    assert "<h1>Others are logging in, and GitHub takes long to answer.</h1>" in refused.text
    assert "<p>Begin again.</p>" in refused.text
    assert site.log_in().status_code == 302


def test_keeps_logins_valid_if_github_closes_the_connection(acme_site: Site) -> None:
    acme_site.grant(ProjectRole.READER)
    acme_site.github.orgs = {"acme"}
    acme_site.log_in()
    acme_site.github.hangs_up = True

    acme_site.now += timedelta(minutes=11)
    pages = [acme_site.get(path).status_code for path in ("/acme:secret/benchmarks", "/login", "/acme:open/")]

    assert pages == [200, 200, 200]
    assert acme_site.log_in().status_code == 403


def test_checks_membership_once_a_minute_while_github_does_not_answer(acme_site: Site) -> None:
    acme_site.github.orgs = {"acme"}
    acme_site.log_in()
    acme_site.github.hangs_up = True
    acme_site.now += timedelta(minutes=11)
    before = acme_site.github.questions

    for _ in range(5):
        acme_site.get("/acme:open/benchmarks")

    assert acme_site.github.questions - before <= 2


def test_checks_membership_at_github_every_ten_minutes(acme_site: Site) -> None:
    acme_site.github.orgs = {"acme"}
    acme_site.log_in()
    acme_site.now += timedelta(minutes=10)
    before = acme_site.github.questions

    for _ in range(5):
        acme_site.get("/acme:open/benchmarks")

    assert acme_site.github.questions - before <= 2


def test_reports_the_settings_that_a_github_login_lacks(store: Store) -> None:
    settings = Settings.model_validate({"access": {"mode": "github"}})

    with pytest.raises(PerfciError) as error:
        create_app(store, settings=settings)

    assert str(error.value) == (
        "A login by GitHub needs [access] github_client_id and PERFCI_GITHUB_CLIENT_SECRET and [server] "
        "public_url: see docs/access.md."
    )


def test_reports_the_settings_that_a_proxy_login_lacks(store: Store) -> None:
    settings = Settings.model_validate({"access": {"mode": "proxy"}})

    with pytest.raises(PerfciError) as error:
        create_app(store, settings=settings)

    assert str(error.value) == (
        "A login by a proxy needs [server] trusted_proxies, whose header counts: see docs/access.md."
    )


def test_sends_hsts_where_the_public_url_is_https(site: Site) -> None:
    assert site.get("/login").headers["Strict-Transport-Security"] == "max-age=31536000"


@pytest.mark.parametrize(
    ("repositories", "owner_id", "status"),
    [
        ({"acme/model": True}, 583231, 200),
        ({"acme/model": False}, 583231, 403),
        ({}, 583231, 403),
        ({"acme/model": True}, 99, 403),
    ],
    ids=["an admin", "a contributor", "a stranger", "another owner"],
)
def test_lets_admins_of_a_repository_bind_it(
    site: Site, repositories: dict[str, bool], owner_id: int, status: int
) -> None:
    site.log_in()
    site.grant(ProjectRole.ADMIN)
    site.github.repositories = repositories
    [csrf] = re.findall(r'name="csrf" value="([^"]+)"', site.get("/login").text)
    body = {"repository": "acme/model", "repository_id": 1296269, "owner_id": owner_id}

    answer = site.browser.put(
        "/api/v1/projects/acme:secret/repository",
        json=body,
        headers={"X-CSRF-Token": csrf},
        base_url=HTTPS,
    )

    assert answer.status_code == status, answer.text
