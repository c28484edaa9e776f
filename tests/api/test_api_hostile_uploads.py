"""Bodies that were made to break a server: each is answered by a problem document, and nothing of it is
stored.

The same in the open network, byte by byte, is in ``tests/api/test_api_broken_connections.py``.
"""

from __future__ import annotations

import functools
import gzip
import json
import os
import struct
import subprocess
import sys
import textwrap
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from api_client import Api

from perfci.formats import run_document
from perfci.model import Run
from perfci.store import Store
from perfci.store.tables.measurements import ProcessRow, ProjectRow, RunRow, SeriesRow, SessionRow
from perfci_web.api.request_pipeline import BodyReader
from tests.support.builders import a_process, a_result, a_run, a_series

RUN = a_run(a_result())
KEY = run_document.idempotency_key(RUN)
BODY = run_document.dump_run(RUN).encode()
MIB = 1024 * 1024


def with_text(place: str, text: str) -> bytes:
    """The valid body with a text of its own at one place, written as JSON escapes."""
    content = json.loads(BODY)
    part = content
    *path, last = place.split(".")
    for step in path:
        part = part[int(step)] if isinstance(part, list) else part[step]
    part[last] = text
    return json.dumps(content).encode()


def repeat_process() -> bytes:
    """The valid body with the process of its result twice."""
    content = json.loads(BODY)
    content["results"][0]["processes"] *= 2
    return json.dumps(content).encode()


def raw(old: bytes, new: bytes) -> bytes:
    assert old in BODY
    return BODY.replace(old, new, 1)


def bomb(mebibytes: int) -> bytes:
    """So many spaces as gzip; made of one packed piece, for the test is not to hold what the server must
    not.
    """
    packer, piece, checksum = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS), b" " * MIB, 0
    packed = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)  # which looks back at no other piece
    for _ in range(mebibytes):
        checksum = zlib.crc32(piece, checksum)
    return (
        gzip.compress(b"", 9)[:10]
        + packed * mebibytes
        + packer.flush()
        + struct.pack("<LL", checksum, mebibytes * MIB)
    )


def deep(opening: bytes, closing: bytes) -> bytes:
    return raw(
        b'"environment":{"torch":"2.13.0"}', b'"environment":' + opening * 200_000 + b"1" + closing * 200_000
    )


def parameters(count: int) -> bytes:
    named = json.dumps({f"p{number}": "1" for number in range(count)})
    return raw(b'"metric":"time"', b'"parameters":%s,"metric":"time"' % named.encode())


PLAIN: dict[str, tuple[int, bytes]] = {
    "nothing": (400, b""),
    "no JSON": (400, b"<html></html>"),
    "another value": (400, b"[]"),
    "cut off": (400, BODY[:-20]),
    "text behind its end": (400, BODY + b"{}"),
    "200,000 deep lists": (400, deep(b"[", b"]")),
    "200,000 deep objects": (400, deep(b'{"a":', b"}")),
    "NaN": (400, raw(b"[1.0]", b"[NaN]")),
    "infinity": (400, raw(b"[1.0]", b"[-Infinity]")),
    "1e999": (400, raw(b"[1.0]", b"[1e999]")),
    "a whole number of 400 digits": (409, raw(b"[1.0]", b"[" + b"9" * 400 + b"]")),
    "a whole number of 5,000 digits": (400, raw(b"[1.0]", b"[" + b"9" * 5_000 + b"]")),
    "a place of 5,000 digits": (400, raw(b'"index":0', b'"index":' + b"9" * 5_000)),
    "true as a number": (400, raw(b"[1.0]", b"[true]")),
    "text as a number": (400, raw(b"[1.0]", b'["1.0"]')),
    "no UTF-8": (400, raw(b"benchmarks", b"bench\xff\xfe")),
    "another encoding": (400, BODY.decode().encode("utf-16")),
    "a lone surrogate": (400, raw(b"benchmarks", rb"bench\ud800")),
    "a zero character": (400, with_text("suite", "a\x00b")),
    "a zero character in a message": (400, with_text("results.0.reason", "a\x00b")),
    "a control character": (400, with_text("results.0.benchmark", "a\x1b[31mb")),
    "a newline in a name": (400, with_text("results.0.benchmark", "a\nb")),
    "text that runs from right to left": (400, with_text("results.0.benchmark", "a\u202eb")),
    "an invisible character": (400, with_text("session", "a\u200bb")),
    "a name of 501 characters": (400, with_text("results.0.benchmark", "b" * 501)),
    "an empty name": (400, with_text("results.0.benchmark", "")),
    "a key twice": (400, raw(b'"harness":', b'"harness":"x","harness":')),
    "a key twice, deep inside": (400, raw(b'"index":0', b'"index":0,"index":0')),
    "a key twice, escaped": (400, raw(b'"index":0', rb'"index":0,"\u0069ndex":0')),
    "a process twice": (409, repeat_process()),
    "an unknown key": (400, raw(b'"harness":', b'"harnes":"x","harness":')),
    "65 parameters": (400, parameters(65)),
    "100,001 samples": (400, raw(b"[1.0]", b"[" + b"1.0," * 100_000 + b"1.0]")),
    "a date before dates": (409, with_text("started_at", "0001-01-01T00:00:00+23:00")),
    "a date without a zone": (400, with_text("started_at", "2026-03-01T12:00:00")),
    "no sha": (400, with_text("commit.sha", "main; rm -rf /")),
    "a reserved project": (409, with_text("project", "static")),
    "9 MiB": (413, b" " * (9 * MIB)),
}


def a_thousand_keys(times: int) -> bytes:
    item = b"{" + b",".join(b'"%d":1' % key for key in range(1000)) + b"}"
    return b",".join([item] * times)


PACKED: dict[str, tuple[int, Callable[[], bytes]]] = {
    "a bomb of 1 GiB": (413, lambda: bomb(1024)),
    "33 MiB": (413, lambda: bomb(33)),
    "a million parameters": (400, lambda: gzip.compress(parameters(1_000_000), 1)),
    "eight million empty lists": (
        413,
        lambda: gzip.compress(b'{"results":[' + b"[]," * 8_000_000 + b"[]]}", 1),
    ),
    "a thousand keys a thousand times": (
        400,
        lambda: gzip.compress(b'{"results":[' + a_thousand_keys(1_000) + b"]}", 1),
    ),
    "two million keys": (413, lambda: gzip.compress(a_thousand_keys(2_000), 1)),
    "no gzip": (400, lambda: BODY),
    "gzip in gzip": (400, lambda: gzip.compress(gzip.compress(BODY))),
    "gzip that breaks off": (400, lambda: gzip.compress(BODY)[:-9]),
    "a byte behind the gzip": (400, lambda: gzip.compress(BODY) + b"\x00"),
    "two gzip members": (400, lambda: gzip.compress(BODY) + gzip.compress(b" ")),
    "a wrong checksum": (400, lambda: gzip.compress(BODY)[:-8] + bytes(8)),
    "only a zlib stream": (400, lambda: zlib.compress(BODY)),
}
"""Each is made when it is asked for: together they take seconds."""


@functools.cache
def packed_body(name: str) -> bytes:
    return PACKED[name][1]()


HEADERS: dict[str, tuple[int, dict[str, str]]] = {
    "no key": (400, {"Idempotency-Key": ""}),
    "another key": (409, {"Idempotency-Key": "0" * 64}),
    "brotli": (415, {"Content-Encoding": "br"}),
    "two encodings": (415, {"Content-Encoding": "gzip, gzip"}),
    "a form": (415, {"Content-Type": "application/x-www-form-urlencoded"}),
    "no type": (415, {"Content-Type": ""}),
}


def rows(store: Store) -> dict[str, int]:
    with store.read() as tx:
        tables = (ProjectRow, SessionRow, RunRow, SeriesRow, ProcessRow)
        return {
            table.__tablename__: tx.scalar(sa.select(sa.func.count()).select_from(table)) or 0
            for table in tables
        }


def assert_refused(api: Api, store: Store, status: int, send: Callable[[], Any]) -> None:
    answer = send()

    assert (answer.status_code, answer.content_type) == (status, "application/problem+json"), answer.data[
        :300
    ]
    assert len(answer.data) < 10_000
    assert set(rows(store).values()) == {0}


@pytest.mark.parametrize("name", list(PLAIN))
def test_refuses_a_plain_body(api: Api, store: Store, name: str) -> None:
    status, body = PLAIN[name]

    assert_refused(api, store, status, lambda: api.send(body, key=KEY))


@pytest.mark.parametrize("name", list(PACKED))
def test_refuses_a_hostile_gzip_body(api: Api, store: Store, name: str) -> None:
    status, _ = PACKED[name]
    packed = {"Content-Encoding": "gzip"}

    assert_refused(api, store, status, lambda: api.send(packed_body(name), key=KEY, **packed))


@pytest.mark.parametrize("name", list(HEADERS))
def test_refuses_by_its_headers(api: Api, store: Store, name: str) -> None:
    status, headers = HEADERS[name]

    assert_refused(api, store, status, lambda: api.send(BODY, **({"key": KEY} | headers)))


def test_accepts_unusual_but_valid_bodies(api: Api) -> None:
    def named(text: str) -> Run:
        return a_run(a_result(), session=text)

    names = [
        "'; DROP TABLE runs; --",
        "<script>alert(1)</script>",
        "名前 שם",
        "../../etc/passwd",
        "x" * 500,
        "a{}:b~c",
    ]

    assert [api.upload(named(name)).status_code for name in names] == [201] * len(names)
    listed = api.get("/projects/acme:model/runs").json["items"]
    assert {entry["session"] for entry in listed} == set(names)


def test_accepts_a_large_upload_of_a_thousand_benchmarks(api: Api) -> None:
    processes = tuple(a_process(1.0, 1.1, 1.2, 1.3, index=n) for n in range(5))
    run = a_run(*(a_result(a_series(f"suite.time_{n}"), *processes) for n in range(1000)))
    body = run_document.dump_run(run).encode()

    answer = api.send(body, key=run_document.idempotency_key(run), packed=True)

    assert (answer.status_code, answer.json["samples"]) == (201, 20_000)


def test_limits_the_memory_of_a_gzip_bomb(tmp_path: Path) -> None:
    """Measured in a process of its own; the largest that was sent before is what it is compared with."""
    script = """
        import resource, sys
        from api_client import Api
        from test_api_hostile_uploads import BODY, KEY, packed_body
        from perfci.store import open_store
        from perfci_web import create_app

        api = Api(create_app(open_store(sys.argv[1], create=True), read_only=False))
        api.send(BODY, key=KEY)
        names = ("a bomb of 1 GiB", "33 MiB", "eight million empty lists", "two million keys")
        bodies = [packed_body(name) for name in names]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for body in bodies:
            assert api.send(body, key=KEY, **{"Content-Encoding": "gzip"}).status_code == 413
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    places = os.pathsep.join(str(item) for item in (Path(__file__).parent, Path(__file__).parent.parent))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), f"sqlite:///{tmp_path}/perfci.db"],
        env=os.environ | {"PYTHONPATH": places},
        capture_output=True,
        text=True,
        check=True,
    )

    assert int(done.stdout) < 100 * 1024  # KiB: the 32 MiB it may unpack to, and its pieces


def test_repeats_no_value_of_a_refused_body(api: Api) -> None:
    secret = "pfciu_" + "a" * 44

    answer = api.send(with_text("commit.sha", secret), key=KEY)

    assert secret not in answer.text


@pytest.mark.parametrize("packed", [True, False])
def test_a_body_that_is_no_run_is_small_and_takes_no_turn_of_large_ones(
    api: Api, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    turns: list[object] = []
    monkeypatch.setattr(BodyReader, "_reserve_large_slot", lambda *about: turns.append(about))
    headers = {"Content-Type": "application/json"} | ({"Content-Encoding": "gzip"} if packed else {})
    body = bomb(3) if packed else b" " * 3 * MIB

    answer = api.client.post("/api/v1/oidc/token", data=body, headers=headers)

    assert (answer.status_code, len(turns)) == (413, 0)
    assert "at most 1 MiB" in answer.json["detail"]
