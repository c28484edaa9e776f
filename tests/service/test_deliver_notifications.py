"""Each state of an incident is delivered once to each destination, whichever process is killed."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta

import pytest
from sqlalchemy.orm import Session

from perfci.model import IncidentState
from perfci.net.smtp_mail import MailServer
from perfci.service.incidents.incident_update_rules import IncidentUpdate
from perfci.service.incidents.triage import require_incident, update_incident
from perfci.service.notify import deliver_notifications as delivery
from perfci.service.notify.deliver_notifications import deliver_notifications
from perfci.service.notify.enqueue_notifications import enqueue_notifications
from perfci.service.notify.senders import SenderConfig, compute_signature
from perfci.store import Store, open_store
from perfci.store.jobs import notification_queue
from perfci.store.jobs.notification_destinations import Destination, save_destination
from perfci.verdicts.judging_policy import Policy
from tests.support.builders import NOON, PROJECT, acting_as
from tests.support.evaluations import a_budgeted_incident, a_move, a_project, reconcile
from tests.support.notification_receivers import GitHub, Hook, Mailbox, a_github, a_hook, a_mailbox
from tests.support.sampled_proofs import sample_or_whole

NOW = NOON + timedelta(days=3)
HERE = (ipaddress.ip_network("127.0.0.0/8"),)


@pytest.fixture
def hook() -> Iterator[Hook]:
    with a_hook() as hook:
        yield hook


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with a_mailbox() as box:
        yield box


@pytest.fixture
def hub() -> Iterator[GitHub]:
    with a_github() as hub:
        yield hub


def subscribe(store: Store, *wanted: Destination) -> None:
    project = a_project(store)
    with store.begin() as tx:
        for entry in wanted:
            save_destination(tx, project.id, entry)


def a_webhook(hook: Hook, **changes: object) -> Destination:
    return Destination(
        **({"name": "hook", "kind": "webhook", "address": hook.url, "secret": "s3cret"} | changes)
    )  # type: ignore[arg-type]


def sender_config(mailbox: Mailbox | None = None, hub: GitHub | None = None) -> SenderConfig:
    server = (
        MailServer("127.0.0.1", mailbox.port, tls="none", sender="perfci@example.com")
        if mailbox
        else MailServer("")
    )
    return SenderConfig(
        HERE, server, hub.api if hub else "", lambda project, number: f"https://perf.example/{number}"
    )


def states(store: Store) -> list[tuple[str, int, str]]:
    project = a_project(store)
    with store.read() as tx:
        return [
            (delivery.state, delivery.attempts, delivery.problem)
            for delivery in notification_queue.load_deliveries(tx, project.id)
        ]


def test_a_webhook_receives_signed_json(store: Store, hook: Hook) -> None:
    subscribe(store, a_webhook(hook))
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x")))

    assert deliver_notifications(store, sender_config(), NOW) == 1
    assert deliver_notifications(store, sender_config(), NOW) == 0

    ((headers, body),) = hook.got
    sent = json.loads(body)
    assert headers["X-Perfci-Signature"] == compute_signature("s3cret", body)
    assert (sent["incidents"][0]["headline"], sent["incidents"][0]["url"]) == (
        "x got worse, +20.0 %, at 0000000ccc Change number 12 (2 Mar 2026)",
        "https://perf.example/1",
    )


def test_a_claimed_delivery_is_not_counted_as_waiting(store: Store, hook: Hook) -> None:
    subscribe(store, a_webhook(hook))
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x")))
    project = a_project(store)

    with store.begin() as tx:
        again = enqueue_notifications(tx, project, require_incident(tx, project, 1), NOW)

    assert again == 0
    assert len(states(store)) == 1


def test_slack_text_mentions_nobody(store: Store, hook: Hook) -> None:
    subscribe(store, a_webhook(hook, kind="slack"))
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("<!channel>.time_step")))

    deliver_notifications(store, sender_config(), NOW)

    text = json.loads(hook.got[0][1])["text"]
    headline = "&lt;!channel&gt;.time_step got worse, +20.0 %, at 0000000ccc Change number 12 (2 Mar 2026)"
    assert text.startswith(f"*{PROJECT} #1 new: {headline}*\n")
    assert "<!channel>" not in text


def test_mail_lists_the_largest_changes(store: Store, mailbox: Mailbox) -> None:
    subscribe(store, Destination("list", "email", "perf@example.com"))
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x", rel=0.5)))

    deliver_notifications(store, sender_config(mailbox), NOW)

    (mail,) = mailbox.got
    headline = "x got worse, +50.0 %, at 0000000ccc Change number 12 (2 Mar 2026)"
    assert mail["Subject"] == f"{PROJECT} #1 new: {headline}"
    assert mail.get_content().replace("\r\n", "\n") == (
        f"{headline}\n"
        "Detected in the history only; not yet confirmed on new pairs.\n"
        "\n"
        "  x got 50.0 % slower\n"
        "\n"
        "Candidate commits, most likely first:\n"
        "  0000000ccc Change number 12\n"
        "\n"
        "https://perf.example/1\n"
    )


def test_an_issue_is_opened_once_and_later_states_are_comments(store: Store, hub: GitHub) -> None:
    routes = {"states": ["new", "fixed"]}
    subscribe(store, Destination("issues", "github_issue", "acme/model", secret="ghs_x", routes=routes))
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x")))
    deliver_notifications(store, sender_config(hub=hub), NOW)
    project = a_project(store)
    with store.begin() as tx:
        update_incident(
            tx,
            project,
            1,
            1,
            IncidentUpdate(IncidentState.FIXED, reason="reverted by @ada"),
            acting_as("user:x", NOW),
        )

    deliver_notifications(store, sender_config(hub=hub), NOW)

    with store.read() as tx:
        assert require_incident(tx, project, 1).issue_url == "https://github.com/acme/model/issues/1"
    assert [issue["labels"] for issue in hub.issues] == [["perfci"]]
    assert "reverted by @\u2060ada" in hub.comments[1][0]["body"]


def test_an_issue_whose_response_was_lost_is_found_and_not_opened_twice(store: Store, hub: GitHub) -> None:
    subscribe(store, Destination("issues", "github_issue", "acme/model", secret="ghs_x"))
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x")))
    deliver_and_die(store, "after_send", sender_config(hub=hub))

    deliver_notifications(store, sender_config(hub=hub), NOW)

    assert len(hub.issues) == 1
    assert states(store) == [("sent", 0, "")]


def test_an_issue_is_not_sent_to_a_private_network_unless_allowed(store: Store, hub: GitHub) -> None:
    subscribe(store, Destination("issues", "github_issue", "acme/model", secret="ghs_x"))
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x")))

    deliver_notifications(store, SenderConfig((), MailServer(""), hub.api), NOW)

    assert hub.issues == []
    ((state, _, problem),) = states(store)
    assert (state, "127.0.0.1" in problem) == ("failed", True)


def test_a_refusal_by_github_names_the_permission_and_is_final(store: Store, hub: GitHub) -> None:
    subscribe(store, Destination("issues", "github_issue", "acme/other", secret="ghs_x"))
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x")))

    deliver_notifications(store, sender_config(hub=hub), NOW)

    assert states(store) == [
        (
            "failed",
            1,
            "GitHub has nothing there to list the issues of acme/other (404 Not Found): it does not exist, "
            "or the token may not see it. The token needs the permission issues: read.",
        )
    ]


def test_server_errors_are_retried_and_refusals_are_not(store: Store, hook: Hook) -> None:
    subscribe(store, a_webhook(hook))
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x")))
    hook.answers = [500, 410]

    deliver_notifications(store, sender_config(), NOW)
    assert states(store) == [("waiting", 1, "the receiver answered 500")]
    deliver_notifications(store, sender_config(), NOW + timedelta(minutes=1))

    assert states(store) == [("failed", 2, "the receiver answered 410")]
    assert len(set(hook.ids)) == 1


def test_retries_end_after_the_last_attempt(store: Store, hook: Hook) -> None:
    subscribe(store, a_webhook(hook))
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x")))
    hook.answers = [503] * 50

    for hour in range(0, 48, 2):
        deliver_notifications(store, sender_config(), NOW + timedelta(hours=hour))

    assert len(hook.got) == 10
    assert states(store) == [("failed", 10, "the receiver answered 503")]


@pytest.mark.parametrize("digits", [16, 20, 400])
def test_a_retry_after_header_delays_by_two_hours_at_most(store: Store, hook: Hook, digits: int) -> None:
    with a_hook() as other:
        subscribe(store, a_webhook(hook), a_webhook(other, name="other"))
        reconcile(store, NOW, a_budgeted_incident("a1", a_move("x")))
        hook.answers, hook.retry_after = [429], "9" * digits

        deliver_notifications(store, sender_config(), NOW)
        assert len(other.got) == 1
        deliver_notifications(store, sender_config(), NOW + timedelta(hours=2))

    assert len(hook.got) == 2
    assert {state for state, _, _ in states(store)} == {"sent"}


def test_an_unexpected_error_fails_its_own_message_only(
    store: Store, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OverflowError("date value out of range")

    monkeypatch.setattr(delivery, "SENDERS", dict(delivery.SENDERS) | {"slack": broken})
    subscribe(store, a_webhook(hook, name="a", kind="slack"), a_webhook(hook, name="b"))
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x")))

    deliver_notifications(store, sender_config(), NOW)

    assert sorted(states(store)) == [
        ("sent", 0, ""),
        ("waiting", 1, "OverflowError: date value out of range"),
    ]


def test_an_address_in_a_private_network_is_never_requested(store: Store, hook: Hook) -> None:
    subscribe(store, a_webhook(hook))
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x")))

    deliver_notifications(store, SenderConfig(), NOW)

    assert hook.got == []
    assert states(store)[0][0] == "failed"


def test_quiet_hours_hold_a_message_and_a_digest_sends_one(store: Store, hook: Hook) -> None:
    night = {"tz": "UTC", "from": "22:00", "to": "07:00"}
    subscribe(store, a_webhook(hook, quiet=night), a_webhook(hook, name="daily", digest="daily@09:00"))
    late = NOW.replace(hour=23)
    reconcile(
        store,
        late,
        a_budgeted_incident("b1", a_move("y", at=20), good=19, bad=20),
        a_budgeted_incident("a1", a_move("x")),
    )

    assert deliver_notifications(store, sender_config(), late + timedelta(hours=1)) == 0
    assert deliver_notifications(store, sender_config(), late + timedelta(hours=8)) == 2
    assert deliver_notifications(store, sender_config(), late + timedelta(hours=10)) == 2

    assert [len(json.loads(body)["incidents"]) for _, body in hook.got] == [1, 1, 2]


KILLS = ("before_commit_1", "before_commit_2", "after_commit", "after_claim", "after_send")


@sample_or_whole("rounds", 2, 5)
def test_a_kill_at_any_point_loses_and_repeats_no_notification(
    store: Store, hook: Hook, mailbox: Mailbox, rounds: int
) -> None:
    """At each point twice, or five times: only a kill between sending and marking sends the message again."""
    subscribe(store, a_webhook(hook), Destination("list", "email", "perf@example.com"))
    results = []
    for number, kill in enumerate(KILLS * rounds):
        at = 2 + 2 * number
        results.append(a_budgeted_incident(f"i{number}", a_move(f"s{number}", at=at), good=at - 1, bad=at))

        deliver_and_die(store, kill, sender_config(mailbox), *results[::-1])
        reconcile(store, NOW, *results[::-1])
        while deliver_notifications(store, sender_config(mailbox), NOW):
            pass

    assert len(set(hook.ids)) == len(set(mailbox.ids)) == len(KILLS) * rounds
    assert len(hook.ids) + len(mailbox.ids) == 2 * len(KILLS) * rounds + rounds
    assert {state for state, *_ in states(store)} == {"sent"}


def deliver_and_die(store: Store, kill: str, sender_config: SenderConfig, *incidents: object) -> None:
    """Another process looks and delivers, and is killed on the way."""
    child = os.fork()
    if child == 0:
        try:
            _look_and_die(store.url, kill, sender_config, incidents)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def _look_and_die(url: str, kill: str, sender_config: SenderConfig, incidents: tuple[object, ...]) -> None:
    from perfci.service.incidents.reconcile_incidents import reconcile_incidents
    from tests.support.evaluations import an_evaluation, measured_project

    def sending(batch: object, uid: object, sender_config: object, now: datetime) -> object:
        if kill == "after_send":
            senders[batch[0].destination.kind](batch, uid, sender_config, now)  # type: ignore[index,arg-type]
        return os.kill(os.getpid(), signal.SIGKILL)

    begun: list[int] = []

    @contextlib.contextmanager
    def dying() -> Iterator[Session]:
        """The first transaction writes incidents, the last one tells of them."""
        with store.begin() as tx:
            begun.append(1)
            yield tx
            if kill == f"before_commit_{len(begun)}":
                os.kill(os.getpid(), signal.SIGKILL)

    senders = delivery.SENDERS
    with closing(open_store(url, create=False)) as store:
        if incidents:
            project = measured_project(store, *incidents)  # type: ignore[arg-type]
            reconcile_incidents(store, project, Policy(), an_evaluation(*incidents), NOW, dying)  # type: ignore[arg-type]
        if kill == "after_commit":
            os.kill(os.getpid(), signal.SIGKILL)
        delivery.SENDERS = dict.fromkeys(senders, sending)  # type: ignore[assignment]
        deliver_notifications(store, sender_config, NOW)
