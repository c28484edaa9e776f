"""The page of settings: thresholds for everybody, tokens and members for admins."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest
from flask.testing import FlaskClient
from page_reading import P, read, words
from web_builders import NOW, PROJECT, a_store, fill

from perfci.auth.permissions import LOCAL
from perfci.model import PerfciError
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.mute_benchmarks import set_benchmark_mute
from perfci.service.notify import manage_destinations
from perfci.store import Store
from perfci.store.access.api_tokens import list_tokens
from perfci.store.jobs.notification_destinations import Destination, load_destinations, save_destination
from perfci.store.jobs.notification_queue import Delivery
from perfci.store.projects import find_project
from perfci_web import create_app

HOSTILE = "<script>alert(1)</script>"
SETTINGS = f"{P}/settings"


@pytest.fixture(scope="module")
def settings_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with closing(a_store(tmp_path_factory.mktemp("settings"))) as store:
        fill(store, commits=2)
        with store.begin() as tx:
            project = find_project(tx, PROJECT)
            assert project is not None
            set_benchmark_mute(
                tx, project, f"noisy.{HOSTILE}", "", AuditContext(LOCAL, NOW), days=9, reason=HOSTILE
            )
            save_destination(tx, project.id, Destination(HOSTILE, "slack", "https://x/secret"))
        yield store


@pytest.fixture(scope="module")
def admin(settings_store: Store) -> Iterator[FlaskClient]:
    app = create_app(settings_store, read_only=False, clock=lambda: NOW)
    yield app.test_client()
    app.extensions["perfci"].group_commit.close()


def test_shows_thresholds_and_mutes_to_readers(settings_store: Store) -> None:
    page = read(create_app(settings_store, clock=lambda: NOW).test_client(), SETTINGS)

    text = words(page)
    assert "Memory5.0 %5.0 %2 MiB or 512 B" in text
    assert "Time5.0 %5.0 %" in text
    assert "Counts5.0 %any change" in text
    assert f"noisy.{HOSTILE} is muted until 21 Apr 2026, by local: {HOSTILE}." in text
    assert HOSTILE not in page
    assert "<form" not in page.partition("<main")[2]
    assert "Members" not in page


def test_shows_a_new_token_once_and_revokes_it(admin: FlaskClient, settings_store: Store) -> None:
    made = admin.post(f"{SETTINGS}/tokens", data={"name": HOSTILE, "scope": "results:write", "days": "30"})

    secret = re.search(r"<pre tabindex=\"0\"><code>(\S+)</code>", made.text)
    assert secret is not None
    assert (made.status_code, made.headers["Cache-Control"]) == (201, "no-store")
    later = read(admin, SETTINGS)
    assert secret[1] not in later
    assert HOSTILE not in later
    with settings_store.read() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        [token] = list_tokens(tx, project.id)
    assert f"{token.uid}, ends in {token.last4}results:write12 May 2026never" in words(later)
    assert admin.post(f"{SETTINGS}/revoke-token", data={"uid": token.uid}).status_code == 303
    assert "No token is valid." in words(read(admin, SETTINGS))


def test_sets_and_removes_a_member(admin: FlaskClient) -> None:
    answer = admin.post(f"{SETTINGS}/members", data={"member": "proxy/ada", "role": "sheriff"})

    assert (answer.status_code, answer.headers["Location"]) == (303, SETTINGS)
    assert "adaproxy/ada sheriff" in words(read(admin, SETTINGS)).replace("adasheriff", "ada sheriff")
    admin.post(f"{SETTINGS}/remove-member", data={"member": "proxy/ada"})
    assert "Nobody has a role in this project." in words(read(admin, SETTINGS))


def test_removes_a_destination_whose_address_no_page_shows(admin: FlaskClient) -> None:
    before = read(admin, SETTINGS)

    answer = admin.post(f"{SETTINGS}/remove-destination", data={"name": HOSTILE})

    assert f"{HOSTILE} slack" in words(before)
    assert "https://x" not in before
    assert answer.status_code == 303
    assert "Notifications go nowhere." in words(read(admin, SETTINGS))


def test_lets_a_benchmark_out_again(admin: FlaskClient) -> None:
    answer = admin.post(f"{SETTINGS}/unmute", data={"benchmark": f"noisy.{HOSTILE}", "metric": ""})

    assert answer.status_code == 303
    assert "None is muted." in words(read(admin, SETTINGS))


@pytest.mark.parametrize(
    ("form", "data", "sentence"),
    [
        ("tokens", {"name": "x"}, "A token needs a scope: one of results:read, results:write, admin."),
        (
            "tokens",
            {"name": "x", "scope": "all"},
            "A scope is one of results:read, results:write, admin, not 'all'.",
        ),
        ("tokens", {"name": "", "scope": "admin"}, "Give the token a name, such as nightly: one line"),
        ("tokens", {"name": "x", "scope": "admin", "days": "x"}, "A number of days was expected, not 'x'."),
        (
            "tokens",
            {"name": "x", "scope": "admin", "days": "999"},
            "A token lives for 1 to 365 days",
        ),
        ("members", {"member": "ada", "role": "admin"}, "Somebody is named as github/NUMBER or proxy/NAME"),
        (
            "members",
            {"member": "proxy/ada", "role": "king"},
            "one of reader, sheriff, admin, not 'king'.",
        ),
        ("remove-member", {"member": "proxy/nobody"}, "There is no member of this name here."),
        ("revoke-token", {"uid": "0"}, "There is no token of this uid here."),
        ("remove-destination", {"name": "no"}, "There is no destination of this name here."),
        ("mute", {"benchmark": "a", "days": "0"}, "A number of days was expected, not '0'."),
        ("mute", {"benchmark": "a", "days": "0000000010"}, "A number of days was expected"),
        ("mute", {"benchmark": "a", "days": "999"}, "days: Input should be less than or equal to 365."),
        ("destinations", {"name": "a", "kind": "pigeon", "address": "x"}, "This form: kind: Input should be"),
        ("destinations", {"name": "a", "kind": "webhook", "address": "ftp://x/"}, "http"),
        (
            "destinations",
            {"name": "", "kind": "email", "address": "a@b.example"},
            "The name of a destination",
        ),
        ("destinations", {"name": "a", "kind": "github_issue", "address": "a/b"}, "send it as the secret."),
        ("test-destination", {"name": "no"}, "There is no destination of this name here."),
        ("unmute", {"benchmark": "no"}, "This benchmark is not muted any more."),
    ],
)
def test_says_why_a_form_was_refused(
    admin: FlaskClient, form: str, data: dict[str, str], sentence: str
) -> None:
    answer = admin.post(f"{SETTINGS}/{form}", data=data)

    assert answer.status_code == 409
    assert sentence in words(answer.text)


def test_adds_tries_and_removes_a_destination(
    admin: FlaskClient, settings_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, str]] = []

    def send(deliveries: Sequence[Delivery], *_: object) -> None:
        sent.append((deliveries[0].destination.address, deliveries[0].destination.secret))

    monkeypatch.setattr(manage_destinations, "SENDERS", {"webhook": send})
    name = f"{HOSTILE} hook"
    hook = {"kind": "webhook", "address": "https://hooks.example.com/very-secret", "secret": "s3cret"}

    added = admin.post(f"{SETTINGS}/destinations", data={"name": name, **hook})
    again = admin.post(f"{SETTINGS}/destinations", data={"name": name, **hook})
    tried = admin.post(f"{SETTINGS}/test-destination", data={"name": name})

    assert (added.status_code, again.status_code, tried.status_code) == (303, 409, 200)
    assert "There is a destination of this name already" in words(again.text)
    assert f"A test message went to {name}." in words(tried.text)
    assert sent == [("https://hooks.example.com/very-secret", "s3cret")]
    for page in (again.text, tried.text, read(admin, SETTINGS)):
        assert "s3cret" not in page
        assert "very-secret" not in page
        assert name not in page
    with settings_store.read() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        assert "very-secret" not in repr(load_destinations(tx, project.id))
    admin.post(f"{SETTINGS}/remove-destination", data={"name": name})


def test_says_why_a_test_message_did_not_arrive(admin: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PerfciError("hooks.example.com answered 500.")

    monkeypatch.setattr(manage_destinations, "SENDERS", {"slack": refuse})
    fields = {"name": "chat", "kind": "slack", "address": "https://hooks.example.com/x"}
    admin.post(f"{SETTINGS}/destinations", data=fields)

    tried = admin.post(f"{SETTINGS}/test-destination", data={"name": "chat"})

    assert tried.status_code == 409
    assert "The test message did not reach chat: hooks.example.com answered 500." in words(tried.text)
    admin.post(f"{SETTINGS}/remove-destination", data={"name": "chat"})


def test_mutes_a_benchmark_for_some_days(admin: FlaskClient) -> None:
    muted = {"benchmark": "train.Step", "metric": "", "reason": "too noisy", "days": "7"}

    answer = admin.post(f"{SETTINGS}/mute", data=muted)

    assert answer.status_code == 303
    assert "train.Step is muted until 19 Apr 2026, by local: too noisy." in words(read(admin, SETTINGS))
    admin.post(f"{SETTINGS}/unmute", data=muted)
