"""Authenticated encryption of what the database keeps and has to give back: tokens of others, addresses."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet


class Encryptor:
    """Encrypts with the first of its keys, and decrypts with any of them."""

    def __init__(self, key: bytes, *older_keys: bytes) -> None:
        self._ciphers = [_build_cipher(each) for each in (key, *older_keys)]

    def encrypt(self, value: Any) -> str:
        return self._ciphers[0].encrypt(json.dumps(value).encode()).decode()

    def decrypt(self, text: str | bytes, max_age_s: int | None = None) -> Any:
        """Return the value, or None where the text is forged, damaged, too old or of another key."""
        try:
            return json.loads(MultiFernet(self._ciphers).decrypt(text, ttl=max_age_s))
        except (InvalidToken, ValueError):
            return None

    def uses_current_key(self, text: str | bytes) -> bool:
        """Whether a text was encrypted with the key that is used now."""
        try:
            self._ciphers[0].decrypt(text)
        except InvalidToken:
            return False
        return True


def _build_cipher(key: bytes) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(b"perfci seal" + key).digest()))
