"""The lock of a machine says whom it waits for, and again while it waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfci.runner import locks


def test_reminds_of_a_wait_that_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    with locks.machine_lock(tmp_path / "lock", owner="perfci run in /elsewhere") as _:
        tries = iter([False] * 242 + [True])
        monkeypatch.setattr(locks, "_try_lock", lambda handle: next(tries))
        monkeypatch.setattr(locks.time, "sleep", lambda seconds: None)
        with locks.machine_lock(tmp_path / "lock", owner="perfci run in /here", on_wait=lines.append):
            pass

    holder, *reminders = lines
    assert holder.startswith("WAITING for perfci run in /elsewhere (process ")
    assert [line.rpartition(", ")[2] for line in reminders] == ["1 min so far", "2 min so far"]
