"""The name of a change: the same in tables, files, commands, sentences and the search box."""

from __future__ import annotations

import re
from hashlib import sha256

CHANGE_ID = re.compile(r"[Cc][0-9a-f]{8}")
"""What a change is called: ``C7f3a9c21``."""


def format_change_id(series_identity: str, commit: str) -> str:
    """Name the change of a series at a commit; the name follows from both, whoever derives the change."""
    return f"C{sha256(f'{series_identity} {commit}'.encode()).hexdigest()[:8]}"
