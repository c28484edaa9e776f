"""Each disturbance once on each database; ``make torture`` runs them at full length with the long kills."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.databases import database_url as database_url
from tests.support.databases import kind as kind
from tools.disturb_server import (
    MAY_FILL_A_DISK,
    DisturbanceResult,
    fill_disk,
    hold_database,
    send_broken_bodies,
    send_late_spool,
    set_clock_back,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "disturb", [send_broken_bodies, set_clock_back, send_late_spool, partial(hold_database, seconds=2.0)]
)
def test_acknowledged_uploads_are_stored_and_nothing_else(
    disturb: Callable[[Path, str], DisturbanceResult], database_url: str, tmp_path: Path
) -> None:
    assert disturb(tmp_path, database_url).broken == []


@pytest.mark.skipif(not MAY_FILL_A_DISK, reason="a small file system of one's own takes CAP_SYS_ADMIN")
def test_a_full_disk_loses_no_acknowledged_upload(tmp_path: Path) -> None:
    assert fill_disk(tmp_path).broken == []
