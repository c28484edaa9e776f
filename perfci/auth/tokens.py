"""Generate tokens with a checksum, and hash them for storage."""

from __future__ import annotations

import binascii
import hashlib
import re
import secrets
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

TokenKind = Literal["u", "r", "a", "l"]
"""Prefixes of tokens of a user, a CI run, an agent and the local user, so that scanners recognise a leaked
one.
"""

JOB_TOKEN_PREFIX = "pfcir_"
"""The prefix of the token of a CI run."""

ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
SECRET_LENGTH = 38  # base62: 226 bits, so a plain SHA-256 is enough at rest
CHECK_LENGTH = 6  # base62 of a CRC-32 (62**6 > 2**32)
TOKEN_PATTERN = re.compile(rf"pfci[ural]_[0-9A-Za-z]{{{SECRET_LENGTH + CHECK_LENGTH}}}")
TOKEN_IN_TEXT_PATTERN = re.compile(r"pfci[ural]_[0-9A-Za-z]+")
"""Matches a token, or a part of one, in text."""


@dataclass(frozen=True, slots=True)
class GeneratedToken:
    """A new token: ``text`` is shown once; ``hash`` and ``last4`` are stored."""

    text: str = field(repr=False)
    hash: str
    last4: str


def make_token(kind: TokenKind, choice: Callable[[str], str] = secrets.choice) -> GeneratedToken:
    """Generate a token of a kind."""
    body = f"pfci{kind}_" + "".join(choice(ALPHABET) for _ in range(SECRET_LENGTH))
    text = body + _checksum(body)
    return GeneratedToken(text, hash_token(text), text[-4:])


def hash_token_if_valid(text: str) -> str | None:
    """Hash a token to look it up; None if its form or checksum is wrong, which saves the query."""
    if not TOKEN_PATTERN.fullmatch(text) or not secrets.compare_digest(
        _checksum(text[:-CHECK_LENGTH]), text[-CHECK_LENGTH:]
    ):
        return None
    return hash_token(text)


def hash_token(text: str) -> str:
    """Hash the text of a token."""
    return hashlib.sha256(text.encode()).hexdigest()


def _checksum(body: str) -> str:
    """Compute the CRC-32 of a token's body, so that a mistyped or cut token is refused without a query."""
    number, digits = binascii.crc32(body.encode()), ""
    for _ in range(CHECK_LENGTH):
        number, digit = divmod(number, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return digits
