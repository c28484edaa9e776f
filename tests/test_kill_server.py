"""A short kill test on each database; ``make torture`` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest
from databases import KINDS
from kill_server import a_database, torment


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_server_loses_nothing_it_acknowledged(kind: str, tmp_path: Path) -> None:
    with a_database(kind, tmp_path) as (url, restart):
        tally = torment(url, tmp_path, seconds=30.0, kills=2, restart=restart, seed=7)

    assert tally.is_clean, tally
    assert tally.stored > 0
