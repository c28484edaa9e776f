"""Results that wait to be sent, on disk before the first attempt: what was measured once is never lost by a network."""

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

NAME = re.compile(r"(?P<ms>\d{13})-(?P<key>[0-9a-f]{64})\.json\.gz")
REFUSED = "refused"
LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class Spooled:
    """One document that waits. The server is where it was meant to go; the token is never written down."""

    path: Path
    key: str
    put_at_ms: int

    @property
    def packed(self) -> bytes:
        """Exactly the bytes that were put: the same body is what makes a second attempt harmless."""
        return self.path.read_bytes()


class Spool:
    """A folder of gzip files, one for each document and server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, body: bytes, key: str, server: str, *, now_ms: int | None = None) -> Spooled:
        """Keep a document; once this returns, neither a crash nor a power cut loses it."""
        place = self._place(server)
        found = next((one for one in self._in(place) if one.key == key), None)
        packed = gzip.compress(body, compresslevel=6, mtime=0)
        if found is not None and found.packed == packed:
            return found
        ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        while (path := place / f"{ms:013d}-{key}.json.gz").exists():
            ms += 1
        with _told(path):
            _write_durably(path, packed)
        return Spooled(path, key, ms)

    def waiting(self, server: str) -> list[Spooled]:
        """What waits for a server, oldest first."""
        return self._in(self._place(server, make=False))

    def servers(self) -> list[str]:
        """For whom something waits."""
        if not self.folder.is_dir():
            return []
        found = (path.parent / "server" for path in self.folder.glob("*/*.json.gz"))
        return sorted({path.read_text().strip() for path in found if path.exists()})

    def done(self, item: Spooled) -> None:
        """Forget a document that the server acknowledged under this key."""
        item.path.unlink(missing_ok=True)

    def refuse(self, item: Spooled, problem: bytes) -> Path:
        """Put aside what a server will never take, with what it said beside it."""
        place = item.path.parent / REFUSED
        place.mkdir(mode=0o700, exist_ok=True)
        target = place / item.path.name
        with _told(target):
            _write_durably(target.with_name(f"{item.path.name}.problem.json"), problem)
            os.replace(item.path, target)
        return target

    @contextlib.contextmanager
    def locked(self) -> Iterator[bool]:
        """Whether this process alone sends from here; another one's work is not done twice."""
        self._make(self.folder)
        with (self.folder / LOCK).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True

    def _place(self, server: str, *, make: bool = True) -> Path:
        """The folder of one server, named readably and marked with its address."""
        place = self.folder / re.sub(r"[^A-Za-z0-9.-]+", "_", server.rstrip("/"))[:100]
        if make:
            self._make(place)
            mark = place / "server"
            if not mark.exists():
                with _told(mark):
                    _write_durably(mark, f"{server}\n".encode())
        return place

    def _make(self, folder: Path) -> None:
        with _told(folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _sync(folder.parent)
            ignore = self.folder / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")

    def _in(self, place: Path) -> list[Spooled]:
        if not place.is_dir():
            return []
        names = ((path, NAME.fullmatch(path.name)) for path in place.iterdir())
        found = [Spooled(path, name["key"], int(name["ms"])) for path, name in names if name]
        return sorted(found, key=lambda one: one.path.name)


def _write_durably(path: Path, content: bytes) -> None:
    """Whole or not at all, and on the disk: the content first, then the name, then the folder that holds it."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PerfciError(f"{path} cannot be written: {error.strerror}; nothing was sent.") from error
