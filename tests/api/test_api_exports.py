"""Exports of whole projects: how many at once, for whom, and what they hold open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from api_client import NOW, Api
from flask.testing import FlaskClient

from perfci.config import Settings
from perfci.net.url_segments import encode_segment
from perfci.service.export_history import EXPORT_FORMATS, export_history
from perfci.store import Store
from perfci_web import create_app
from perfci_web.api.export_streams import MAX_EXPORT_S, PIECE_BYTES, ExportLimiter, ExportStream
from tests.support.builders import PROJECT, a_commit, a_process, a_result, a_run

CSV = f"/projects/{encode_segment(PROJECT)}/export.csv"


@pytest.fixture
def filled(api: Api) -> Api:
    for number in range(1, 4):
        run = a_run(a_result(None, a_process(1.0)), commit=a_commit(number), session=f"s{number}")
        assert api.upload(run).status_code == 201
    return api


@pytest.mark.parametrize("format", EXPORT_FORMATS)
def test_holds_no_connection_while_nobody_reads_on(
    filled: Api, store: Store, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfci.service.export_history.MAX_RESULTS_IN_MEMORY", 1)
    connections = []

    for _ in export_history(store, PROJECT, format, lambda _: None):
        connections.append(store._engine.pool.checkedout())

    assert len(connections) >= 3
    assert set(connections) == {0}


def test_exports_what_was_stored_when_it_began(filled: Api, store: Store) -> None:
    lines = export_history(store, PROJECT, "csv", lambda _: None)
    begun = [next(lines), next(lines)]
    later = a_run(a_result(None, a_process(1.0)), commit=a_commit(9), session="later")
    assert filled.upload(later).status_code == 201

    assert len([*begun, *lines]) == 1 + 3


def test_refuses_a_third_export_until_one_has_ended(filled: Api) -> None:
    client = FlaskClient(filled.app)  # one that reads no answer
    first, _ = (client.get(f"/api/v1{CSV}") for _ in range(2))
    refused = filled.get(CSV)
    first.close()
    taken = client.get(f"/api/v1{CSV}")

    assert (refused.status_code, taken.status_code) == (503, 200)
    assert refused.headers["Retry-After"] == "30"
    assert refused.json["detail"] == "2 exports are being sent already: try again in 30 s."


def test_asking_for_the_headers_of_exports_occupies_none(filled: Api) -> None:
    client = FlaskClient(filled.app)
    for _ in range(5):
        with client.head(f"/api/v1{CSV}") as answer:
            assert answer.status_code == 200


def stream(chunks: Iterator[bytes], clock: list[float]) -> ExportStream:
    return ExportLimiter(clock=lambda: clock[0]).open_stream(chunks)


def test_sends_pieces_of_one_size_whatever_the_format_yields() -> None:
    chunks = [b"a" * 10, b"b" * 3 * PIECE_BYTES, b"c" * 5]

    pieces = list(stream(iter(chunks), [0.0]))

    assert b"".join(pieces) == b"".join(chunks)
    assert [len(piece) for piece in pieces] == [PIECE_BYTES] * 3 + [15]


def test_breaks_off_an_export_that_takes_too_long() -> None:
    clock = [0.0]
    pieces = stream((b"a" * PIECE_BYTES for _ in range(3)), clock)
    next(pieces)
    clock[0] = MAX_EXPORT_S + 1

    with pytest.raises(TimeoutError):
        next(pieces)


@pytest.fixture
def open_api(store: Store, request: pytest.FixtureRequest) -> Iterator[Api]:
    """A public dashboard, asked by somebody anonymous."""
    settings = Settings.model_validate({"access": {"mode": "open", "public_exports": request.param}})
    app = create_app(store, read_only=False, clock=lambda: NOW, settings=settings)
    yield Api(app)
    app.extensions["perfci"].group_commit.close()


@pytest.mark.parametrize(("open_api", "status"), [(False, 401), (True, 200)], indirect=["open_api"])
def test_exports_to_strangers_only_where_that_is_set(filled: Api, open_api: Api, status: int) -> None:
    filled.client.patch(f"/api/v1{CSV.removesuffix('/export.csv')}", json={"visibility": "public"})

    answer = open_api.get(CSV)

    assert answer.status_code == status
    if status == 401:
        assert "is for those who send a token or log in" in answer.json["detail"]
