"""Open untrusted input files and archives: bounded in size, with one clear sentence for a damaged file."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

from perfci.model import PerfciError

MIB = 2**20

MAX_FILE_BYTES = 256 * MIB
"""No result file comes near this; a larger one is a mistake or an attack."""

MAX_ARCHIVE_BYTES = 4096 * MIB
"""The sum of everything in an archive, unpacked."""

DECOMPRESSORS: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}

MAGIC_BYTES = max(map(len, DECOMPRESSORS))

TAR_MAGIC_AT, TAR_MAGIC = 257, b"ustar"

REFUSED_MAGIC = {
    **{bytes((0x80, version)): "a pickle" for version in range(2, 6)},
    b"PK\x03\x04": "a zip archive, as torch.save and numpy.savez write them",
    b"\x93NUMPY": "a numpy array",
}
"""First bytes of refused files; a pickle of protocol 2 to 5 starts with ``pickle.PROTO`` and its version."""

REFUSED_SUFFIXES = (".pkl", ".pickle", ".pt", ".pth", ".npy", ".npz")

DAMAGE_ERRORS = (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)


def refuse_executable_formats(path: Path, head: bytes) -> None:
    """Refuse pickles and similar files: reading one can execute code, and none of them holds a unit."""
    description = next((text for magic, text in REFUSED_MAGIC.items() if head.startswith(magic)), "")
    if not description and path.is_file() and path.suffix.lower() in REFUSED_SUFFIXES:
        description = f"called {path.suffix}"
    if description:
        raise PerfciError(
            f"{path} is {description}: "
            "loading such files can run code, and they say neither unit nor direction; "
            "write the numbers as perfci.run/1, or as one of the JSON or CSV formats of docs/formats.md."
        )


def read_decompressed(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """Read a file, decompressing it if needed; one larger than ``limit`` bytes is refused."""
    with _translate_errors(str(path)), path.open("rb") as file:
        return _read_bounded(file, str(path), limit)


def read_decompressed_head(path: Path, size: int) -> bytes:
    """Read the first ``size`` bytes of a file's content, decompressed if needed."""
    with _translate_errors(str(path)), path.open("rb") as file, _open_decompressed(file) as content:
        head: bytes = content.read(size)
    return head


def decompress(body: bytes, source_name: str, limit: int = MAX_FILE_BYTES) -> bytes:
    """Decompress a body in memory if needed; one larger than ``limit`` bytes is refused."""
    with _translate_errors(source_name):
        return _read_bounded(io.BytesIO(body), source_name, limit)


class FileTree(Protocol):
    """JSON files by their path from a common root."""

    def list_json_paths(self) -> list[PurePosixPath]:
        """List the paths of all JSON files, sorted."""
        ...

    def has_file(self, name: PurePosixPath) -> bool:
        """Whether there is a file of this path."""
        ...

    def read_file(self, name: PurePosixPath) -> bytes:
        """Read a file, decompressed; one above ``MAX_FILE_BYTES`` is refused."""
        ...


class FolderTree:
    """The JSON files below a folder; links to other folders are not followed."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def list_json_paths(self) -> list[PurePosixPath]:
        paths = (Path(folder, name) for folder, _, names in os.walk(self._root) for name in names)
        return sorted(PurePosixPath(path.relative_to(self._root)) for path in paths if path.suffix == ".json")

    def has_file(self, name: PurePosixPath) -> bool:
        return (self._root / name).is_file()

    def read_file(self, name: PurePosixPath) -> bytes:
        return read_decompressed(self._root / name)


class ArchiveTree:
    """The JSON files of a tar archive; nothing is extracted by name, so a name cannot escape a folder."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path, self._file = path, file
        # "r:" detects no compression: it was undone before, within a limit.
        with _translate_errors(str(path)), tarfile.open(fileobj=file, mode="r:") as archive:
            # What is stored of a sparse member is not what it holds.
            self._members = {
                PurePosixPath(member.name): (member.offset_data, member.size)
                for member in archive
                if member.isreg() and not member.issparse() and member.name.endswith(".json")
            }
            file.seek(archive.offset)
            if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):  # what every archive ends with
                raise PerfciError(f"{path} is truncated or damaged: it has no end.")

    def list_json_paths(self) -> list[PurePosixPath]:
        return sorted(self._members)

    def has_file(self, name: PurePosixPath) -> bool:
        return name in self._members

    def read_file(self, name: PurePosixPath) -> bytes:
        start, size = self._members[name]
        if size > MAX_FILE_BYTES:
            raise PerfciError(f"{name} is too large: the limit is {MAX_FILE_BYTES // MIB} MiB, unpacked.")
        self._file.seek(start)
        body = self._file.read(size)
        if len(body) < size:
            raise PerfciError(f"{self._path} is truncated or damaged: {name} is cut off.")
        return body


def starts_like_tar(head: bytes) -> bool:
    """Whether a file's decompressed content begins like a tar archive."""
    return head[TAR_MAGIC_AT : TAR_MAGIC_AT + len(TAR_MAGIC)] == TAR_MAGIC


def is_tar_archive(path: Path) -> bool:
    """Whether a file is a tar archive, looking only at its start."""
    with contextlib.suppress(PerfciError):
        return path.is_file() and starts_like_tar(read_decompressed_head(path, TAR_MAGIC_AT + len(TAR_MAGIC)))
    return False


@contextlib.contextmanager
def open_file_tree(path: Path) -> Iterator[FileTree]:
    """Open a folder, or a tar archive, which is decompressed into one unnamed temporary file."""
    if path.is_dir():
        yield FolderTree(path)
        return
    with tempfile.TemporaryFile(prefix="perfci-") as plain:
        with _translate_errors(str(path)), path.open("rb") as file, _open_decompressed(file) as content:
            unpacked_bytes = 0
            while chunk := content.read(MIB):
                unpacked_bytes += plain.write(chunk)
                if unpacked_bytes > MAX_ARCHIVE_BYTES:
                    raise PerfciError(
                        f"The archive {path} unpacks to more than {MAX_ARCHIVE_BYTES // MIB} MiB."
                    )
        plain.seek(0)
        yield ArchiveTree(path, plain)


def _read_bounded(file: IO[bytes], source_name: str, limit: int) -> bytes:
    with _open_decompressed(file) as content:
        body: bytes = content.read(limit + 1)
    if len(body) > limit:
        raise PerfciError(f"{source_name} is too large: the limit is {limit // MIB} MiB, unpacked.")
    return body


@contextlib.contextmanager
def _open_decompressed(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Open the content of a file, decompressed as it is read."""
    start = file.read(MAGIC_BYTES)
    file.seek(0)
    opener = next(
        (opener for magic, opener in DECOMPRESSORS.items() if start.startswith(magic)), contextlib.nullcontext
    )
    with opener(file) as content:
        yield content


@contextlib.contextmanager
def _translate_errors(source_name: str) -> Iterator[None]:
    try:
        yield
    except DAMAGE_ERRORS as error:
        raise PerfciError(f"{source_name} is truncated or damaged: {error}.") from error
    except OSError as error:
        raise PerfciError(f"Cannot read {source_name}: {error.strerror or error}.") from error
