"""Tokens: made, told apart from typing errors, and kept as nothing but their hash."""

from __future__ import annotations

import binascii
import hashlib
import re
import secrets
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

TokenKind = Literal["u", "r", "a"]
"""Of a user, of one CI run, of an agent: told by the prefix, so that a leaked one is recognised."""

JOB_TOKEN_PREFIX = "pfcir_"
"""What the token of one CI run begins with."""

ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
SECRET_LENGTH = 38  # base62: 226 bits, so a plain SHA-256 is enough at rest
CHECK_LENGTH = 6  # base62 of a CRC-32 (62**6 > 2**32)
TOKEN_PATTERN = re.compile(rf"pfci[ura]_[0-9A-Za-z]{{{SECRET_LENGTH + CHECK_LENGTH}}}")
TOKEN_IN_TEXT_PATTERN = re.compile(r"pfci[ura]_[0-9A-Za-z]+")
"""A token, or a piece of one, within a text that must not hold any."""


@dataclass(frozen=True, slots=True)
class GeneratedToken:
    """A fresh token: ``text`` is shown once, to its maker only; ``hash`` and ``last4`` are stored."""

    text: str = field(repr=False)
    hash: str
    last4: str


def make_token(kind: TokenKind, choice: Callable[[str], str] = secrets.choice) -> GeneratedToken:
    body = f"pfci{kind}_" + "".join(choice(ALPHABET) for _ in range(SECRET_LENGTH))
    text = body + _checksum(body)
    return GeneratedToken(text, hash_token(text), text[-4:])


def hash_if_valid(text: str) -> str | None:
    """The hash to look a token up by; nothing where the text cannot be one, which costs no question to the
    store.
    """
    if not TOKEN_PATTERN.fullmatch(text) or not secrets.compare_digest(
        _checksum(text[:-CHECK_LENGTH]), text[-CHECK_LENGTH:]
    ):
        return None
    return hash_token(text)


def hash_token(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _checksum(body: str) -> str:
    """The CRC-32 of what stands before it, so that a mistyped or cut token is refused without a look-up."""
    number, digits = binascii.crc32(body.encode()), ""
    for _ in range(CHECK_LENGTH):
        number, digit = divmod(number, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return digits
