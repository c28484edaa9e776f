"""Mode ``local``: only who has the address that `perfci serve` printed is the local user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from access_scenario import NOW, SECRET, fill
from flask import Flask
from flask.testing import FlaskClient

from perfci.auth.tokens import make_token
from perfci.store import Store, open_store
from perfci_web import create_app
from perfci_web.jinja_environment import render_backticks_as_code

TOKEN = make_token("l").text
OPEN_PRINTED_ADDRESS = "Open the address that `perfci serve` printed"
LOCAL = {"base_url": "http://127.0.0.1:8787"}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Flask]:
    store: Store = open_store(f"sqlite:///{tmp_path}/perfci.db", create=True)
    fill(store, SECRET)
    app = create_app(store, read_only=False, loopback_only=True, clock=lambda: NOW, local_token=TOKEN)
    yield app
    app.extensions["perfci"].group_commit.close()
    store.close()


@pytest.fixture
def browser(app: Flask) -> FlaskClient:
    return app.test_client()


def test_a_stranger_behind_a_proxy_without_headers_gets_no_token(browser: FlaskClient) -> None:
    page = browser.get("/acme:secret/benchmarks", **LOCAL)
    made = browser.post(
        "/api/v1/projects/acme:secret/tokens", json={"name": "mine", "scopes": ["admin"]}, **LOCAL
    )

    listed = browser.get("/api/v1/projects", **LOCAL)

    assert (page.status_code, made.status_code, listed.status_code) == (401, 401, 401)
    assert f"<h1>{OPEN_PRINTED_ADDRESS.replace('`perfci serve`', '<code>perfci serve</code>')}" in page.text
    assert "All projects" not in page.text  # they would be refused as well
    assert OPEN_PRINTED_ADDRESS in made.get_json()["detail"]


def test_the_icon_that_browsers_ask_for_unasked_is_no_project(browser: FlaskClient) -> None:
    icon = browser.get("/favicon.ico", **LOCAL)

    assert (icon.status_code, icon.mimetype) == (200, "image/svg+xml")


def test_the_printed_address_logs_a_browser_in(browser: FlaskClient) -> None:
    opened = browser.get(f"/acme:secret/benchmarks?token={TOKEN}&q=a+b", **LOCAL)
    page = browser.get("/acme:secret/benchmarks", **LOCAL)
    changed = browser.patch("/api/v1/projects/acme:secret", json={"archived": False}, **LOCAL)

    cookie = opened.headers["Set-Cookie"]
    assert (opened.status_code, opened.headers["Location"]) == (302, "/acme:secret/benchmarks?q=a+b")
    assert cookie.startswith("perfci-local-8787=")
    assert cookie.endswith("; HttpOnly; Path=/; SameSite=Lax")
    assert (page.status_code, changed.status_code) == (200, 200)


def test_servers_on_several_ports_keep_their_cookies_apart(browser: FlaskClient) -> None:
    browser.get(f"/?token={TOKEN}", base_url="http://127.0.0.1:9000")

    assert browser.get("/acme:secret/benchmarks", base_url="http://127.0.0.1:9000").status_code == 200
    assert browser.get("/acme:secret/benchmarks", **LOCAL).status_code == 401


@pytest.mark.parametrize("path", ["/", "/acme:secret/benchmarks", "/nothing", "//evil.example/"])
def test_a_wrong_token_opens_nothing(browser: FlaskClient, path: str) -> None:
    answer = browser.get(f"{path}?token={make_token('l').text}", **LOCAL)

    assert (answer.status_code, "Set-Cookie" in answer.headers) == (401, False)


def test_the_redirect_after_the_login_stays_on_this_server(browser: FlaskClient) -> None:
    path = {"PATH_INFO": "//evil.example/\r\nX: y"}

    answer = browser.get(f"/?token={TOKEN}", environ_overrides=path, **LOCAL)

    assert answer.headers["Location"] == "/evil.example/%0D%0AX:%20y"


def test_programs_send_the_token_in_a_header(browser: FlaskClient) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}

    answer = browser.patch("/api/v1/projects/acme:secret", json={"archived": False}, headers=headers, **LOCAL)

    assert answer.status_code == 200


def test_health_and_the_job_login_need_no_secret(browser: FlaskClient) -> None:
    health = browser.get("/healthz", **LOCAL)
    description = browser.get("/api/v1/openapi.json", **LOCAL)
    job = browser.post("/api/v1/oidc/token", json={"token": "x", "project": "acme/secret"}, **LOCAL)

    assert (health.status_code, description.status_code) == (200, 200)
    assert OPEN_PRINTED_ADDRESS not in job.text


@pytest.mark.parametrize(
    "header",
    [
        "X-Forwarded-For",
        "X-Forwarded-Proto",
        "X-Forwarded-Port",
        "Forwarded",
        "X-Real-IP",
        "Via",
        "CF-Connecting-IP",
        "CF-Ray",
        "CDN-Loop",
        "True-Client-IP",
        "X-Client-IP",
        "X-Cluster-Client-IP",
        "Fastly-Client-IP",
        "Fly-Client-IP",
        "X-Original-Host",
        "X-Envoy-External-Address",
        "X-Amzn-Trace-Id",
        "X-Azure-ClientIP",
        "Tailscale-User-Login",
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/v1/projects", "/healthz"])
def test_refuses_what_came_through_a_proxy(browser: FlaskClient, header: str, path: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", header: "203.0.113.9"}

    answer = browser.get(path, headers=headers, **LOCAL)

    assert answer.status_code == 403
    assert "This server takes requests of this machine only, and this one came through a proxy" in answer.text


def test_refuses_other_host_names_with_the_secret_too(browser: FlaskClient) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}

    answer = browser.get("/", headers=headers, base_url="http://perf.example.com")

    assert answer.status_code == 403
    assert "under the name localhost or 127.0.0.1" in answer.text


def test_an_error_page_marks_code_and_nothing_else() -> None:
    assert render_backticks_as_code("Run `a <b>` & open") == "Run <code>a &lt;b&gt;</code> &amp; open"
