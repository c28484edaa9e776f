"""Keep addresses and secrets of destinations encrypted: the address of a hook is a password as well.

The key is ``PERFCI_SECRET_KEY``; without one it lies in the database, where it protects mere excerpts only.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.auth.encryption import Encryptor
from perfci.model import PerfciError
from perfci.store import Store
from perfci.store.access.logins_and_server_secrets import ensure_server_secret, find_server_secret
from perfci.store.jobs.notification_destinations import (
    Destination,
    load_all_destinations,
    replace_stored_secrets,
)

ENCRYPTED_PREFIX = "sealed:"
"""Marks an encrypted text; rows from before have none."""
KEY_NAME = "seal"
"""The key in the database, which logins are encrypted with as well."""


def ensure_encryptor(tx: Transaction, secret_key: str, at: datetime) -> Encryptor:
    """Return the encryptor of this database, in a transaction that may write its key."""
    if not secret_key:
        ensure_server_secret(tx, KEY_NAME, lambda: secrets.token_bytes(32), at)
    encryptor = _find_encryptor(tx, secret_key)
    assert encryptor is not None
    return encryptor


def encrypt_text(encryptor: Encryptor, text: str) -> str:
    """Encrypt an address or a secret; an empty one stays empty."""
    return ENCRYPTED_PREFIX + encryptor.encrypt(text) if text else ""


def decrypt_destination(tx: Transaction, destination: Destination, secret_key: str) -> Destination:
    """Return a destination as its sender needs it."""
    encryptor = _find_encryptor(tx, secret_key)
    address, secret = (_decrypt(encryptor, text) for text in (destination.address, destination.secret))
    if address is None or secret is None:
        raise PerfciError(
            f"The destination {destination.name} was encrypted with another key: give this process the "
            "PERFCI_SECRET_KEY of that time, or set the destination again with its address and secret."
        )
    return replace(destination, address=address, secret=secret)


def reencrypt_destinations(store: Store, secret_key: str) -> int:
    """Encrypt anew what lies in plain text or under the key in the database; return how many changed."""
    if not secret_key:
        return 0
    with store.begin() as tx:
        encryptor = _find_encryptor(tx, secret_key)
        assert encryptor is not None
        changed = [
            destination
            for destination in load_all_destinations(tx)
            if not all(_is_current(encryptor, text) for text in (destination.address, destination.secret))
        ]
        for destination in changed:
            plain = decrypt_destination(tx, destination, secret_key)
            replace_stored_secrets(
                tx,
                destination.id,
                encrypt_text(encryptor, plain.address),
                encrypt_text(encryptor, plain.secret),
            )
    return len(changed)


def _find_encryptor(tx: Transaction, secret_key: str) -> Encryptor | None:
    """Return the encryptor; None in a database that has no key, and so nothing encrypted."""
    keys = [key for key in (secret_key.encode(), find_server_secret(tx, KEY_NAME)) if key]
    return Encryptor(*keys) if keys else None


def _decrypt(encryptor: Encryptor | None, text: str) -> str | None:
    if not text.startswith(ENCRYPTED_PREFIX):
        return text
    value = encryptor.decrypt(text.removeprefix(ENCRYPTED_PREFIX)) if encryptor else None
    return value if isinstance(value, str) else None


def _is_current(encryptor: Encryptor, text: str) -> bool:
    return not text or (
        text.startswith(ENCRYPTED_PREFIX) and encryptor.uses_current_key(text.removeprefix(ENCRYPTED_PREFIX))
    )
