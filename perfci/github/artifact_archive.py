"""Read the zip of a results artifact in memory, as hostile: any byte may come from the pull request."""

from __future__ import annotations

import io
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from zipfile import ZipFile, ZipInfo

from perfci.model import PerfciError

MIB = 1024 * 1024

MAX_ENTRIES = 500
"""Two documents for each measured session: a comparison has a handful."""
MAX_FILE_BYTES = 32 * MIB
"""Of one file."""
MAX_TOTAL_BYTES = 64 * MIB
MAX_COMPRESSION_RATIO = 200
"""Numbers in JSON shrink to a tenth, the same words over and over to a fiftieth; a bomb to a thousandth."""
ALWAYS_ALLOWED_BYTES = MIB
"""A file no larger than this may be packed as well as it likes."""

KNOWN_FILES = re.compile(r"findings\.json|runs/[A-Za-z0-9._-]{1,200}\.json")
"""What perfci hands over; other files are passed over unread."""

END_SIGNATURE, ZIP64_SIGNATURE = b"PK\x05\x06", b"PK\x06\x07"
END_SIZE, ZIP64_SIZE, HEADER_SIZE = 22, 20, 30
READ_CHUNK_BYTES = 64 * 1024


class InvalidArtifact(PerfciError):
    """The archive is no results artifact of perfci, or it is damaged."""


def read_artifact_archive(archive: bytes) -> dict[str, bytes]:
    """Read the known files of an archive in memory, by name; no header is trusted.

    Any fault of the archive as a whole rejects all of it.
    """
    entry_count = _count_entries(archive)
    try:
        with ZipFile(io.BytesIO(archive)) as opened:
            entries = opened.infolist()
            _check_entries(entries, entry_count, len(archive))
            contents: dict[str, bytes] = {}
            left = MAX_TOTAL_BYTES
            for entry in entries:
                if KNOWN_FILES.fullmatch(entry.filename):
                    contents[entry.filename] = _inflate_entry(opened, entry, left)
                    left -= len(contents[entry.filename])
            return contents
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        EOFError,
        NotImplementedError,
        ValueError,
        OSError,
    ) as error:
        raise _invalid_artifact(f"its zip is damaged ({type(error).__name__})") from None


def _count_entries(archive: bytes) -> int:
    """The number of files by the end record (22 bytes), which must match the directory."""
    end = archive[-END_SIZE:]
    if len(end) < END_SIZE or not end.startswith(END_SIGNATURE):
        raise _invalid_artifact("it is no zip, or was cut off")
    disk, first, here, count, size, start, comment = struct.unpack("<4H2LH", end[4:])
    if (
        archive[-END_SIZE - ZIP64_SIZE :].startswith(ZIP64_SIGNATURE)
        or 0xFFFF in (here, count)
        or 0xFFFFFFFF in (size, start)
    ):
        raise _invalid_artifact("it is a zip64, made for more than perfci takes")
    # A comment, or bytes before the first file, could hide a second directory that other readers take.
    if disk or first or comment or here != count or start + size != len(archive) - END_SIZE:
        raise _invalid_artifact("its zip is not as GitHub makes them")
    if count > MAX_ENTRIES or size > MAX_ENTRIES * 1024:
        raise _invalid_artifact(f"it holds more than {MAX_ENTRIES} files")
    return int(count)


def _check_entries(entries: Sequence[ZipInfo], expected_count: int, size: int) -> None:
    if len(entries) != expected_count:
        raise _invalid_artifact("it holds another number of files than it says")
    if len({entry.filename for entry in entries}) < len(entries):
        raise _invalid_artifact("a name occurs twice in it")
    for entry in entries:
        _check_entry(entry)
    # Files that share their bytes unpack to far more than any ratio allows:
    # https://www.bamsoftware.com/hacks/zipbomb/
    starts = sorted((entry.header_offset, HEADER_SIZE + entry.compress_size) for entry in entries)
    if any(begin + length > following for (begin, length), (following, _) in pairwise([*starts, (size, 0)])):
        raise _invalid_artifact("its files lie over each other")


def _check_entry(entry: ZipInfo) -> None:
    is_folder, kind = entry.is_dir() and not entry.compress_size, stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFDIR if is_folder else stat.S_IFREG):
        raise _invalid_artifact("it holds a link, or something else that is no file")
    # zipfile cuts `filename` at a zero byte; `orig_filename` is what stands in the archive.
    name = entry.orig_filename.removesuffix("/") if is_folder else entry.orig_filename
    if not name.isprintable() or "\\" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise _invalid_artifact("a name in it leads out of its folder")
    if entry.flag_bits & 0x1:
        raise _invalid_artifact("it is encrypted")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise _invalid_artifact("it is packed in another way than GitHub packs")


def _inflate_entry(opened: ZipFile, entry: ZipInfo, remaining_bytes: int) -> bytes:
    """One file, counted while it comes: the sizes in a zip are only what somebody says."""
    most = min(
        MAX_FILE_BYTES,
        remaining_bytes,
        max(ALWAYS_ALLOWED_BYTES, entry.compress_size * MAX_COMPRESSION_RATIO),
    )
    got = bytearray()
    with opened.open(entry) as packed:
        while piece := packed.read(READ_CHUNK_BYTES):
            got += piece
            if len(got) > most:
                raise _invalid_artifact("it unpacks to more than any comparison takes")
    if len(got) != entry.file_size:
        raise _invalid_artifact("a file in it has another size than it says")
    return bytes(got)


def _invalid_artifact(reason: str) -> InvalidArtifact:
    return InvalidArtifact(
        f"The artifact cannot be what `perfci github compare` hands over: {reason}. Nothing of it was read."
    )


def select_run_documents(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Select the run documents among the files."""
    return {name: body for name, body in files.items() if name.startswith("runs/")}
