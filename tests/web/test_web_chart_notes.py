"""Notes on charts: written by who triages, shown to everybody, by page and API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing

import pytest
from flask.testing import FlaskClient
from page_reading import BF16, SERIES, P, read, words
from web_builders import NOW, PROJECT, a_commit, a_store, fill

from perfci.store import Store
from perfci.store.access.audit_log import list_entries
from perfci.store.projects import find_project
from perfci_web import create_app

HOSTILE = "</svg><script>alert(1)</script> & “driver”"
AT, LATER = a_commit(10).sha, a_commit(20).sha
OTHER = f"{P}/s/train.Step.peakmem_step/peak_memory"
API = "/api/v1/projects/acme:tiny-lm/notes"


@pytest.fixture(scope="module")
def notes_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with closing(a_store(tmp_path_factory.mktemp("notes"))) as store:
        fill(store)
        yield store


@pytest.fixture(scope="module")
def writer(notes_store: Store) -> Iterator[FlaskClient]:
    app = create_app(notes_store, read_only=False, clock=lambda: NOW)
    yield app.test_client()
    app.extensions["perfci"].group_commit.close()


@pytest.fixture(scope="module")
def noted(writer: FlaskClient) -> FlaskClient:
    """A note on all charts, and one on the chart of one series."""
    page = read(writer, f"{SERIES}{BF16}")
    form = page.partition('aria-label="Write a note"')[2]
    identity = re.search(r'name="series" value="([0-9a-f]{64})"', form)
    assert identity is not None
    everywhere = writer.post(f"{P}/notes", data={"commit": AT[:12], "text": HOSTILE})
    fields = {"commit": LATER, "text": "new allocator", "series": identity[1]}
    own = writer.post(f"{P}/notes", data=fields)

    assert (everywhere.status_code, everywhere.headers["Location"]) == (303, f"{P}/commit/{AT}")
    assert own.status_code == 303
    assert own.headers["Location"].startswith(f"{SERIES}?")
    return writer


def test_a_note_is_a_mark_on_the_charts_it_is_for(noted: FlaskClient) -> None:
    own, other = read(noted, f"{SERIES}{BF16}"), read(noted, OTHER)

    assert own.count("<title>✎ new allocator</title>") == 2  # in the wide picture and in the narrow one
    assert own.count("pc-mark-note") > other.count("pc-mark-note") > 0
    assert "<title>✎ &lt;/svg&gt;&lt;script&gt;alert(1)&lt;/script&gt; &amp; “driver”</title>" in other
    assert "new allocator" not in other
    assert "<script>alert" not in own + other


def test_a_note_says_who_wrote_it_and_when(noted: FlaskClient) -> None:
    text = words(read(noted, f"{SERIES}{BF16}"))

    assert f"new allocator local · 12 Apr 2026 · {LATER[:7]}" in text
    assert f"{HOSTILE} local · 12 Apr 2026 · {AT[:7]} · on all charts" in text
    table = text.partition("Commits of this series, newest first")[2]
    assert "✎ new allocator" in table
    assert f"{HOSTILE} local" in words(read(noted, f"{P}/commit/{AT}"))


def test_notes_are_in_the_json_of_a_series_and_in_its_pictures(noted: FlaskClient) -> None:
    path, query = SERIES, BF16
    fields = noted.get(f"{path}.json{query}").get_json()["notes"]
    points = noted.get(f"{path}/figure{query}").get_json()["points"]
    picture = noted.get(f"{path}.svg{query}").text

    assert [(note["commit"], note["text"], note["author"]) for note in fields] == [
        (AT, HOSTILE, "local"),
        (LATER, "new allocator", "local"),
    ]
    assert fields[0]["series"] is None
    assert [point["facts"].rpartition("✎ ")[2] for point in points if point["sha"] == LATER] == [
        "new allocator"
    ]
    assert "✎ new allocator" in picture
    assert "<script>alert" not in picture


def test_readers_see_notes_and_no_form(noted: FlaskClient, notes_store: Store) -> None:
    page = read(create_app(notes_store, clock=lambda: NOW).test_client(), f"{SERIES}{BF16}")

    assert "new allocator" in page
    assert "Write a note" not in page


def test_the_api_adds_lists_and_removes_notes(noted: FlaskClient, notes_store: Store) -> None:
    added = noted.post(API, json={"commit": a_commit(3).sha[:9], "text": "by hand"})
    number = added.get_json()["id"]

    assert (added.status_code, added.get_json()["commit"]) == (201, a_commit(3).sha)
    assert "by hand" in [note["text"] for note in noted.get(API).get_json()["items"]]
    assert noted.delete(f"{API}/{number}").status_code == 204
    assert noted.delete(f"{API}/{number}").status_code == 404
    assert "by hand" not in [note["text"] for note in noted.get(API).get_json()["items"]]
    with notes_store.read() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        last = list_entries(tx, project.id, limit=1)[0]
    assert (last.action, last.detail["text"]) == ("note.remove", "by hand")


def test_removes_a_note_from_the_page_once(noted: FlaskClient) -> None:
    note = noted.post(API, json={"commit": LATER, "text": "wrong"}).get_json()
    fields = {"note": str(note["id"]), "commit": LATER}

    answers = [noted.post(f"{P}/notes/remove", data=fields) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [303, 409]
    assert "There is no such note any more." in words(answers[1].text)
    assert "wrong" not in words(read(noted, f"{P}/commit/{LATER}")).partition("Notes")[2][:200]


@pytest.mark.parametrize(
    ("fields", "status", "sentence"),
    [
        ({"commit": AT, "text": ""}, 409, "This note: text: String should have at least 1 character."),
        ({"commit": AT, "text": "a\nb"}, 409, "This note: text: String should match pattern"),
        ({"commit": AT, "text": "x" * 501}, 409, "at most 500 characters."),
        ({"commit": AT, "text": "x", "series": "0" * 64}, 409, "has no series 000000000000; nothing was"),
        ({"commit": "ffffffff", "text": "x"}, 404, "knows no commit that starts with ffffffff"),
    ],
)
def test_says_why_a_note_was_refused(
    writer: FlaskClient, fields: dict[str, str], status: int, sentence: str
) -> None:
    answer = writer.post(f"{P}/notes", data=fields)

    assert answer.status_code == status
    assert sentence in words(answer.text)
