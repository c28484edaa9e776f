"""The upload spool: documents on disk until a server has stored them."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import os
import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perfci.model import PerfciError

FILE_NAME = re.compile(r"(?P<ms>\d{13})-(?P<key>[0-9a-f]{64})\.json\.gz")
REJECTED_FOLDER = "refused"
LOCK_FILE = ".lock"


@dataclass(frozen=True, slots=True)
class SpooledDocument:
    """A document in the spool and the server it is for; the token is never written."""

    path: Path
    key: str
    spooled_at_ms: int

    @property
    def compressed_body(self) -> bytes:
        """Exactly the bytes that were put, so that a repeated upload is recognized."""
        return self.path.read_bytes()


class Spool:
    """A folder of gzip files, one for each document and server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add_document(
        self, body: bytes, key: str, server: str, *, now_ms: int | None = None
    ) -> SpooledDocument:
        """Store a document; once this returns, neither a crash nor a power cut loses it."""
        place = self._server_folder(server)
        existing = next((document for document in self._list_documents(place) if document.key == key), None)
        # mtime=0: equal documents are equal files.
        packed = gzip.compress(body, compresslevel=6, mtime=0)
        if existing is not None and existing.compressed_body == packed:
            return existing
        ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        while (path := place / f"{ms:013d}-{key}.json.gz").exists():
            ms += 1
        with _report_write_errors(path):
            _write_durably(path, packed)
        return SpooledDocument(path, key, ms)

    def list_waiting_documents(self, server: str) -> list[SpooledDocument]:
        """List the documents for a server, oldest first."""
        return self._list_documents(self._server_folder(server, create=False))

    def list_servers(self) -> list[str]:
        """List the servers that documents wait for."""
        if not self.folder.is_dir():
            return []
        paths = (path.parent / "server" for path in self.folder.glob("*/*.json.gz"))
        return sorted({path.read_text().strip() for path in paths if path.exists()})

    def remove_document(self, document: SpooledDocument) -> None:
        """Remove a document that the server has stored."""
        document.path.unlink(missing_ok=True)

    def move_to_rejected(self, document: SpooledDocument, problem: bytes) -> Path:
        """Set aside a document that the server rejected for good, beside its error response."""
        place = document.path.parent / REJECTED_FOLDER
        place.mkdir(mode=0o700, exist_ok=True)
        target = place / document.path.name
        with _report_write_errors(target):
            _write_durably(target.with_name(f"{document.path.name}.problem.json"), problem)
            os.replace(document.path, target)
        return target

    @contextlib.contextmanager
    def lock_for_sending(self) -> Iterator[bool]:
        """Hold the lock for sending; yields False if another process holds it."""
        self._create_folder(self.folder)
        with (self.folder / LOCK_FILE).open("a") as file:
            try:
                # Unlike a file that marks a lock, this one ends with the process, however that ends.
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True

    def _server_folder(self, server: str, *, create: bool = True) -> Path:
        """The folder of one server, named readably and marked with its address."""
        place = self.folder / re.sub(r"[^A-Za-z0-9.-]+", "_", server.rstrip("/"))[:100]
        if create:
            self._create_folder(place)
            mark = place / "server"
            if not mark.exists():
                with _report_write_errors(mark):
                    _write_durably(mark, f"{server}\n".encode())
        return place

    def _create_folder(self, folder: Path) -> None:
        with _report_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _fsync_folder(folder.parent)
            # The spool lies in the work tree, and no `git add .` shall take it.
            ignore = self.folder / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")

    def _list_documents(self, folder: Path) -> list[SpooledDocument]:
        if not folder.is_dir():
            return []
        names = ((path, FILE_NAME.fullmatch(path.name)) for path in folder.iterdir())
        documents = [SpooledDocument(path, name["key"], int(name["ms"])) for path, name in names if name]
        return sorted(documents, key=lambda document: document.path.name)


def _write_durably(path: Path, content: bytes) -> None:
    """Write atomically and durably: sync the content, rename, then sync the folder."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    # A rename is durable only when the folder is synced too.
    os.replace(draft, path)
    _fsync_folder(path.parent)


def _fsync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _report_write_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PerfciError(f"{path} cannot be written: {error.strerror}; nothing was sent.") from error
