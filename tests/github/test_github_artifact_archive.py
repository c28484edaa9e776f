"""Valid and malicious artifacts: a malicious one is rejected with one sentence, and nothing is read."""

from __future__ import annotations

import io
import random
import stat
import struct
import tracemalloc
import warnings
from collections.abc import Callable
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import pytest

from perfci.github import artifact_archive
from perfci.github.artifact_archive import InvalidArtifact, read_artifact_archive, select_run_documents

GOOD = {
    "findings.json": b'{"project": "acme/model"}',
    "runs/s-0.json": b"{}",
    "runs/s-1.json": b'{"more": 1}',
}
MIB = 1024 * 1024


def zipped(files: dict[str, bytes], packing: int = ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with ZipFile(made, "w", packing) as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return made.getvalue()


def entry(name: str = "findings.json", body: bytes = b"{}", mode: int = 0, **about: int) -> bytes:
    made = io.BytesIO()
    with ZipFile(made, "w") as archive:
        info = ZipInfo(name)
        info.external_attr = mode << 16
        for key, value in about.items():
            setattr(info, key, value)
        archive.writestr(info, body)
    return made.getvalue()


def patched(archive: bytes, at: int, number: int, size: str = "<L") -> bytes:
    """The first entry of the central directory with another number in it."""
    place = archive.index(b"PK\x01\x02") + at
    return archive[:place] + struct.pack(size, number) + archive[place + struct.calcsize(size) :]


def ended(archive: bytes, at: int, number: int, size: str = "<H") -> bytes:
    """The end of an archive with another number in it."""
    place = len(archive) - 22 + at
    return archive[:place] + struct.pack(size, number) + archive[place + struct.calcsize(size) :]


def twice() -> bytes:
    made = io.BytesIO()
    with warnings.catch_warnings(action="ignore"), ZipFile(made, "w") as archive:
        archive.writestr("findings.json", b"{}")
        archive.writestr("findings.json", b"[]")
    return made.getvalue()


def overlapping() -> bytes:
    """Two names for the same packed bytes, as the bombs do that grow with the square of their size."""
    archive = zipped({"runs/a.json": b"0" * 1000, "runs/b.json": b"0" * 1000})
    first = archive.index(b"PK\x01\x02")
    place = archive.index(b"PK\x01\x02", first + 1) + 42
    return archive[:place] + struct.pack("<L", 0) + archive[place + 4 :]


def zip64() -> bytes:
    """An end that names no numbers of its own, but those of a larger one before it."""
    archive = zipped(GOOD)
    end, start = archive[-22:], archive.index(b"PK\x01\x02")
    larger = struct.pack(
        "<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 3, 3, len(archive) - 22 - start, start
    )
    return archive[:-22] + larger + struct.pack("<4sLQL", b"PK\x06\x07", 0, len(archive) - 22, 1) + end


def of_thousands() -> bytes:
    return zipped({f"runs/{number}.json": b"" for number in range(12_000)}, ZIP_STORED)


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "it is no zip, or was cut off"),
    "no zip": (lambda: b"<html>" * 100, "it is no zip, or was cut off"),
    "cut off": (lambda: zipped(GOOD)[:-1], "it is no zip, or was cut off"),
    "something before it": (lambda: b"#!/bin/sh\n" + zipped(GOOD), "its zip is not as GitHub makes them"),
    "a comment that hides another end": (
        lambda: zipped(GOOD)[:-2] + struct.pack("<H", 22) + zipped({})[-22:],
        "its zip is not as GitHub makes them",
    ),
    "zip64": (zip64, "it is a zip64, made for more than perfci takes"),
    "zip64 by its size": (
        lambda: ended(zipped(GOOD), 12, 0xFFFFFFFF, "<L"),
        "it is a zip64, made for more than",
    ),
    "several disks": (lambda: ended(zipped(GOOD), 4, 1), "its zip is not as GitHub makes them"),
    "fewer announced": (
        lambda: ended(ended(zipped(GOOD), 8, 1), 10, 1),
        "it holds another number of files than it says",
    ),
    "thousands of entries": (of_thousands, "it holds more than 500 files"),
    "thousands, announced as two": (
        lambda: ended(ended(of_thousands(), 8, 2), 10, 2),
        "it holds more than 500 files",
    ),
    "a flat bomb": (
        lambda: zipped({"findings.json": b"0" * 20 * MIB}),
        "it unpacks to more than any comparison takes",
    ),
    "large without packing": (
        lambda: zipped({"findings.json": b"0" * (artifact_archive.MAX_FILE_BYTES + 1)}, ZIP_STORED),
        "it unpacks to more than",
    ),
    "large together": (
        lambda: zipped({f"runs/{n}.json": b"0" * 30 * MIB for n in range(3)}, ZIP_STORED),
        "it unpacks to more than",
    ),
    "overlapping": (overlapping, "its files lie over each other"),
    "a file of a size it does not have": (
        lambda: patched(zipped(GOOD), 24, 7),
        "its zip is damaged (BadZipFile)",
    ),
    "longer than the archive": (lambda: patched(zipped(GOOD), 20, 5000), "its files lie over each other"),
    "a symlink": (
        lambda: entry(mode=stat.S_IFLNK | 0o777),
        "it holds a link, or something else that is no file",
    ),
    "a device": (
        lambda: entry(mode=stat.S_IFCHR | 0o666),
        "it holds a link, or something else that is no file",
    ),
    "a folder that is a link": (lambda: entry("runs/", b"", stat.S_IFLNK), "it holds a link"),
    "a folder with a body": (lambda: entry("runs/", b"{}"), "a name in it leads out of its folder"),
    "absolute": (lambda: entry("/etc/passwd"), "a name in it leads out of its folder"),
    "upwards": (lambda: entry("runs/../../findings.json"), "a name in it leads out of its folder"),
    "backslashes": (lambda: entry("..\\findings.json"), "a name in it leads out of its folder"),
    "a line in a name": (lambda: entry("runs/a\n.json"), "a name in it leads out of its folder"),
    "a name with an end in it": (
        lambda: entry("findings.jsonX").replace(b".jsonX", b".json\0"),
        "a name in it leads out of its folder",
    ),
    "encrypted": (lambda: patched(entry(), 8, 1, "<H"), "it is encrypted"),
    "packed by other means": (
        lambda: zipped(GOOD, ZIP_BZIP2),
        "it is packed in another way than GitHub packs",
    ),
    "two of one name": (twice, "a name occurs twice in it"),
    "two names for one": (
        lambda: patched(zipped({"runs/a.json": b"{}"}), 51, ord("b"), "<B"),
        "its zip is damaged (BadZipFile)",
    ),
}


@pytest.mark.parametrize("made", HOSTILE)
def test_rejects_malicious_archives(made: str) -> None:
    build, why = HOSTILE[made]

    with pytest.raises(InvalidArtifact) as caught:
        read_artifact_archive(build())

    result = str(caught.value)
    assert result.startswith(f"The artifact cannot be what `perfci github compare` hands over: {why}")
    assert result.endswith(" Nothing of it was read.")


def test_reads_a_valid_artifact() -> None:
    for packing in (ZIP_STORED, ZIP_DEFLATED):
        files = read_artifact_archive(zipped(GOOD, packing))

        assert files == GOOD
        assert sorted(select_run_documents(files)) == ["runs/s-0.json", "runs/s-1.json"]


def test_reads_a_streamed_zip() -> None:
    """GitHub's own action streams: sizes come behind each file, and in the directory at the end."""

    class Stream(io.RawIOBase):
        def __init__(self) -> None:
            self.got = b""

        def writable(self) -> bool:
            return True

        def write(self, piece: bytes) -> int:  # type: ignore[override]
            self.got += bytes(piece)
            return len(piece)

    stream = Stream()
    with ZipFile(stream, "w", ZIP_DEFLATED) as archive:
        for name, body in GOOD.items():
            archive.writestr(name, body)

    assert read_artifact_archive(stream.got) == GOOD


def test_ignores_unknown_files_unread() -> None:
    bomb = zipped({"findings.json": b"0" * 20 * MIB})
    others = {
        "findings.json.zip": bomb,
        "runs/deep/a.json": b"{}",
        "trace.json": b"0" * 40 * MIB,
        "profiles/suite.time_step-head.txt": b"suite.time_step at aaaaaaaaaa",
        "profiles/suite.time_step-head.trace.json.gz": b"0" * 20 * MIB,
        "x/findings.json": b"",
    }

    assert read_artifact_archive(zipped(GOOD | others)) == GOOD


def test_ignores_folders() -> None:
    made = io.BytesIO()
    with ZipFile(made, "w") as archive:
        archive.mkdir("runs")
        archive.writestr("runs/s-0.json", b"{}")

    assert read_artifact_archive(made.getvalue()) == {"runs/s-0.json": b"{}"}


def test_a_zip_bomb_stays_within_the_memory_limit() -> None:
    bomb = zipped({"findings.json": b"0" * 100 * MIB})
    tracemalloc.start()

    with pytest.raises(InvalidArtifact):
        read_artifact_archive(bomb)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * artifact_archive.MAX_FILE_BYTES + 8 * MIB


def test_any_damage_gives_one_error_sentence() -> None:
    dice, good = random.Random(6), zipped(GOOD)
    read = 0

    for _ in range(5000):
        damaged = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        try:
            read += read_artifact_archive(bytes(damaged)) == GOOD
        except InvalidArtifact:
            continue

    assert read < 5000
