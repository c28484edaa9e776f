"""Tokens of servers of this machine: for this user, this port, and as long as the server runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfci.config import load_config
from perfci.net.local_server_tokens import find_local_token, keep_token_while_serving

URL = "http://127.0.0.1:8787/"


@pytest.mark.parametrize(
    ("url", "token"),
    [
        (URL, "secret"),
        ("http://localhost:8787", "secret"),
        ("http://[::1]:8787", "secret"),
        ("http://127.0.0.1:8788", ""),
        ("http://perf.example.com:8787", ""),
        ("https://127.0.0.1.evil.example:8787", ""),
        ("nonsense", ""),
    ],
)
def test_only_the_server_of_this_machine_is_shown_its_token(tmp_path: Path, url: str, token: str) -> None:
    with keep_token_while_serving(tmp_path / "state", URL, "secret"):
        assert find_local_token(tmp_path / "state", url) == token

    assert find_local_token(tmp_path / "state", URL) == ""


def test_the_token_is_readable_by_its_user_only(tmp_path: Path) -> None:
    (tmp_path / "server-8787.token").write_text("of a server that was killed")
    (tmp_path / "server-8787.token").chmod(0o644)

    with keep_token_while_serving(tmp_path, URL, "secret"):
        (kept,) = tmp_path.iterdir()
        assert (kept.read_text(), kept.stat().st_mode & 0o777) == ("secret", 0o600)


def test_a_server_that_ends_leaves_the_token_of_the_next_one(tmp_path: Path) -> None:
    with keep_token_while_serving(tmp_path, URL, "first"):
        (tmp_path / "server-8787.token").write_text("second")

    assert find_local_token(tmp_path, URL) == "second"


def test_serves_without_a_place_for_the_token(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with keep_token_while_serving(tmp_path / "file" / "state", URL, "secret"):
        assert find_local_token(tmp_path / "file" / "state", URL) == ""


@pytest.mark.parametrize(
    ("variables", "folder"),
    [({"XDG_STATE_HOME": "/state"}, "/state/perfci"), ({"XDG_STATE_HOME": "state"}, "~/.local/state/perfci")],
)
def test_tokens_lie_where_programs_keep_their_state(
    tmp_path: Path, variables: dict[str, str], folder: str
) -> None:
    assert load_config(tmp_path, variables).state_folder == Path(folder).expanduser()
