"""Encrypt addresses and secrets of destinations with the key in the database, as logins are.

A process with ``PERFCI_SECRET_KEY`` encrypts them with that one as it starts.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from cryptography.fernet import Fernet

revision = "0018"
down_revision = "0017"

PREFIX = "sealed:"


def upgrade() -> None:
    rows = _load_rows()
    if rows:
        cipher = _build_cipher(_ensure_key())
        _write((row.id, _encrypt(cipher, row.address), _encrypt(cipher, row.secret)) for row in rows)


def downgrade() -> None:
    rows = [row for row in _load_rows() if row.address.startswith(PREFIX) or row.secret.startswith(PREFIX)]
    if rows:
        cipher = _build_cipher(_ensure_key())
        _write((row.id, _decrypt(cipher, row.address), _decrypt(cipher, row.secret)) for row in rows)


def _load_rows() -> Sequence[sa.Row[Any]]:
    return op.get_bind().execute(sa.text("SELECT id, address, secret FROM destinations")).all()


def _write(rows: Iterable[tuple[int, str, str]]) -> None:
    update = sa.text("UPDATE destinations SET address = :address, secret = :secret WHERE id = :id")
    for row_id, address, secret in rows:
        op.get_bind().execute(update, {"id": row_id, "address": address, "secret": secret})


def _ensure_key() -> bytes:
    connection = op.get_bind()
    key = connection.scalar(sa.text("SELECT value FROM secrets WHERE name = 'seal'"))
    if key is None:
        key = os.urandom(32)
        add = sa.text("INSERT INTO secrets (name, value, created_at) VALUES ('seal', :value, :at)")
        connection.execute(add, {"value": key, "at": int(time.time() * 1000)})
    return bytes(key)


def _build_cipher(key: bytes) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(b"perfci seal" + key).digest()))


def _encrypt(cipher: Fernet, text: str) -> str:
    return PREFIX + cipher.encrypt(json.dumps(text).encode()).decode() if text else ""


def _decrypt(cipher: Fernet, text: str) -> str:
    return str(json.loads(cipher.decrypt(text.removeprefix(PREFIX)))) if text.startswith(PREFIX) else text
