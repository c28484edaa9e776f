"""What a run left behind, taken out of its zip in memory: whoever opened the pull request may have made every byte."""

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

MOST_ENTRIES = 500
"""Two documents for each measured session: a comparison has a handful."""
MOST_BYTES = 32 * MIB
"""Of one file."""
MOST_BYTES_TOGETHER = 64 * MIB
MOST_RATIO = 200
"""Numbers in JSON shrink to a tenth, the same words over and over to a fiftieth; a bomb to a thousandth."""
HARMLESS = MIB
"""A file no larger than this may be packed as well as it likes."""

KNOWN = re.compile(r"findings\.json|runs/[A-Za-z0-9._-]{1,200}\.json")
"""What perfci hands over; other files are passed over unread."""

END, ZIP64 = b"PK\x05\x06", b"PK\x06\x07"
END_SIZE, ZIP64_SIZE, HEADER_SIZE = 22, 20, 30
STEP = 64 * 1024


class Hostile(PerfciError):
    """The archive is none that GitHub made of the results of perfci."""


def contents(archive: bytes) -> dict[str, bytes]:
    """The files that perfci knows, by name; nothing is written to a disk, and nothing a header says is believed.

    Everything that is wrong with the archive as a whole refuses all of it.
    """
    announced = _announced(archive)
    try:
        with ZipFile(io.BytesIO(archive)) as opened:
            entries = opened.infolist()
            _require_harmless(entries, announced, len(archive))
            return _read(opened, [one for one in entries if KNOWN.fullmatch(one.filename)])
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, ValueError, OSError) as error:
        raise _hostile(f"its zip is damaged ({type(error).__name__})") from None


def _announced(archive: bytes) -> int:
    """How many files there are. The last 22 bytes bound all that a reader of zips does, so they have to fit."""
    end = archive[-END_SIZE:]
    if len(end) < END_SIZE or not end.startswith(END):
        raise _hostile("it is no zip, or was cut off")
    disk, first, here, count, size, start, comment = struct.unpack("<4H2LH", end[4:])
    if archive[-END_SIZE - ZIP64_SIZE :].startswith(ZIP64) or 0xFFFF in (here, count) or 0xFFFFFFFF in (size, start):
        raise _hostile("it is a zip64, made for more than perfci takes")
    if disk or first or comment or here != count or start + size != len(archive) - END_SIZE:
        raise _hostile("its zip is not as GitHub makes them")
    if count > MOST_ENTRIES or size > MOST_ENTRIES * 1024:
        raise _hostile(f"it holds more than {MOST_ENTRIES} files")
    return int(count)


def _require_harmless(entries: Sequence[ZipInfo], announced: int, size: int) -> None:
    if len(entries) != announced:
        raise _hostile("it holds another number of files than it says")
    if len({one.filename for one in entries}) < len(entries):
        raise _hostile("a name occurs twice in it")
    for one in entries:
        _require_plain(one)
    starts = sorted((one.header_offset, HEADER_SIZE + one.compress_size) for one in entries)
    if any(begin + length > following for (begin, length), (following, _) in pairwise([*starts, (size, 0)])):
        raise _hostile("its files lie over each other")


def _require_plain(entry: ZipInfo) -> None:
    is_folder, kind = entry.is_dir() and not entry.compress_size, stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFDIR if is_folder else stat.S_IFREG):
        raise _hostile("it holds a link, or something else that is no file")
    name = entry.orig_filename.removesuffix("/") if is_folder else entry.orig_filename
    if not name.isprintable() or "\\" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise _hostile("a name in it leads out of its folder")
    if entry.flag_bits & 0x1:
        raise _hostile("it is encrypted")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise _hostile("it is packed in another way than GitHub packs")


def _read(opened: ZipFile, entries: Sequence[ZipInfo]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    left = MOST_BYTES_TOGETHER
    for one in entries:
        found[one.filename] = _inflated(opened, one, left)
        left -= len(found[one.filename])
    return found


def _inflated(opened: ZipFile, entry: ZipInfo, left: int) -> bytes:
    """One file, counted while it comes: the sizes in a zip are only what somebody says."""
    most = min(MOST_BYTES, left, max(HARMLESS, entry.compress_size * MOST_RATIO))
    got = bytearray()
    with opened.open(entry) as packed:
        while piece := packed.read(STEP):
            got += piece
            if len(got) > most:
                raise _hostile("it unpacks to more than any comparison takes")
    if len(got) != entry.file_size:
        raise _hostile("a file in it has another size than it says")
    return bytes(got)


def _hostile(why: str) -> Hostile:
    return Hostile(f"The artifact cannot be what `perfci github compare` hands over: {why}. Nothing of it was read.")


def runs_in(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The run documents among the files."""
    return {name: body for name, body in files.items() if name.startswith("runs/")}
