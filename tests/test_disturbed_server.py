"""Each disturbance once; ``make torture`` runs them with the long kills."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from disturb_server import Told, broken_bodies, clock_set_back, disturbances, full_disk, held_database, late_spool

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("disturb", [broken_bodies, clock_set_back, late_spool, partial(held_database, seconds=2.0)])
def test_what_was_acknowledged_is_stored_and_nothing_else(disturb: Callable[[Path], Told], tmp_path: Path) -> None:
    assert disturb(tmp_path).broken == []


@pytest.mark.skipif(full_disk not in disturbances(), reason="a small file system of one's own takes root")
def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    assert full_disk(tmp_path).broken == []
