"""A short torture; ``make torture`` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.torture_runs import kill_runs_repeatedly


@pytest.mark.slow
def test_a_run_killed_at_random_loses_only_the_running_process(tmp_path: Path) -> None:
    report = kill_runs_repeatedly(tmp_path, kills=3, seed=7, rounds=9)

    assert report.kills == 3
    assert report.broken == []
