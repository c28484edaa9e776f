from __future__ import annotations

import gzip
import stat
from pathlib import Path

import pytest

from perfci.model import PerfciError
from perfci.net.upload_spool import Spool

SERVER = "https://perf.example.com"
KEY, OTHER = "a" * 64, "b" * 64


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


def test_keeps_a_document_until_it_is_removed(spool: Spool) -> None:
    item = spool.add_document(b"{}", KEY, SERVER, now_ms=1_700_000_000_000)

    assert [
        (upload.key, gzip.decompress(upload.compressed_body))
        for upload in spool.list_waiting_documents(SERVER)
    ] == [(KEY, b"{}")]
    spool.remove_document(item)
    assert spool.list_waiting_documents(SERVER) == []


def test_lists_documents_of_one_server_oldest_first(spool: Spool) -> None:
    spool.add_document(b"2", OTHER, SERVER, now_ms=1_700_000_000_002)
    spool.add_document(b"1", KEY, SERVER, now_ms=1_700_000_000_001)
    spool.add_document(b"3", KEY, "http://localhost:8787", now_ms=1_700_000_000_000)

    assert [upload.key for upload in spool.list_waiting_documents(SERVER)] == [KEY, OTHER]
    assert spool.list_servers() == ["http://localhost:8787", SERVER]


def test_stores_equal_documents_once_and_different_ones_of_one_key_separately(spool: Spool) -> None:
    for body in (b"1", b"1", b"2"):
        spool.add_document(body, KEY, SERVER, now_ms=1_700_000_000_000)

    assert [gzip.decompress(upload.compressed_body) for upload in spool.list_waiting_documents(SERVER)] == [
        b"1",
        b"2",
    ]


def test_ignores_a_file_truncated_by_a_crash(spool: Spool) -> None:
    item = spool.add_document(b"{}", KEY, SERVER)
    item.path.rename(item.path.with_name(f".{item.path.name}.1234abcd"))

    assert spool.list_waiting_documents(SERVER) == []


def test_sets_a_rejected_document_aside_with_its_problem(spool: Spool) -> None:
    path = spool.move_to_rejected(spool.add_document(b"{}", KEY, SERVER), b'{"status": 409}')

    assert spool.list_waiting_documents(SERVER) == []
    assert (path.read_bytes(), path.with_name(f"{path.name}.problem.json").read_bytes()) == (
        gzip.compress(b"{}", compresslevel=6, mtime=0),
        b'{"status": 409}',
    )


def test_its_files_are_private_and_ignored_by_git(spool: Spool) -> None:
    item = spool.add_document(b"{}", KEY, SERVER)

    assert stat.S_IMODE(item.path.stat().st_mode) == 0o600
    assert (spool.folder / ".gitignore").read_text() == "*\n"


def test_allows_one_sending_process_at_a_time(spool: Spool) -> None:
    with spool.lock_for_sending() as first, Spool(spool.folder).lock_for_sending() as second:
        assert (first, second) == (True, False)

    with spool.lock_for_sending() as again:
        assert again


def test_explains_an_unwritable_spool_folder(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file")

    with pytest.raises(PerfciError, match="cannot be written"):
        Spool(tmp_path / "spool").add_document(b"{}", KEY, SERVER)
