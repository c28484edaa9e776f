"""Addresses and secrets of destinations lie encrypted in the database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from perfci.auth.permissions import LOCAL
from perfci.model import PerfciError
from perfci.service.audit_context import AuditContext
from perfci.service.notify.destination_encryption import decrypt_destination, reencrypt_destinations
from perfci.service.notify.manage_destinations import save_destination
from perfci.store import Store, open_store
from perfci.store.jobs.notification_destinations import Destination, find_destination
from perfci.store.projects import find_project
from tests.support.builders import NOON, PROJECT
from tests.support.databases import KINDS, fresh_database
from tests.support.evaluations import a_project

HOOK = Destination("hook", "webhook", "https://hooks.example/T0/secret", quiet={"tz": "UTC"})
CONTEXT = AuditContext(LOCAL, NOON)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with fresh_database(request.param, tmp_path) as url, closing(open_store(url, create=False)) as store:
        a_project(store)
        yield store


def save(store: Store, destination: Destination, secret: str | None, secret_key: str = "") -> None:
    with store.begin() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        save_destination(tx, project, destination, CONTEXT, secret=secret, secret_key=secret_key)


def load(store: Store, secret_key: str = "") -> Destination:
    with store.read() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        stored = find_destination(tx, project.id, "hook")
        assert stored is not None
        return decrypt_destination(tx, stored, secret_key)


def stored_text(store: Store) -> str:
    with store.read() as tx:
        return str(tx.execute(sa.text("SELECT * FROM destinations")).all())


@pytest.mark.parametrize("secret_key", ["", "key of the environment"])
def test_stores_no_address_and_no_secret_in_plain_text(store: Store, secret_key: str) -> None:
    save(store, HOOK, "s3cret", secret_key)

    opened = load(store, secret_key)
    assert (opened.address, opened.secret) == (HOOK.address, "s3cret")
    assert not any(text in stored_text(store) for text in ("hooks.example", "s3cret"))


def test_a_change_without_a_secret_keeps_the_stored_one(store: Store) -> None:
    save(store, HOOK, "s3cret")
    save(store, replace(HOOK, address="https://other.example/"), None)

    assert (load(store).address, load(store).secret) == ("https://other.example/", "s3cret")


def test_a_key_of_the_environment_replaces_the_one_in_the_database(store: Store) -> None:
    save(store, HOOK, "s3cret")

    changed = [reencrypt_destinations(store, key) for key in ("", "new key", "new key")]

    assert changed == [0, 1, 0]
    assert load(store, "new key").secret == "s3cret"
    with pytest.raises(PerfciError, match="was encrypted with another key: give this process"):
        load(store)
