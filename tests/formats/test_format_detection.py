"""Every sample file is claimed by exactly one format, within its first 64 KiB."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from asv_builders import a_result_file, a_row
from foreign_files import FILES

from perfci.formats import run_document
from perfci.formats.bounded_files import read_decompressed_head
from perfci.formats.content_outline import ContentOutline
from perfci.formats.format_registry import HEAD_BYTES, READER_MODULES, detect_format, get_reader
from perfci.formats.pytorch import pytorch_writer
from perfci.model import PerfciError
from tests.support.builders import a_result, a_run

SAMPLES = sorted(path for path in FILES.rglob("*") if path.is_file() and path.suffix != ".bin")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_exactly_one_format_claims_a_file(path: Path) -> None:
    outline = ContentOutline(read_decompressed_head(path, HEAD_BYTES))

    assert [name for name in READER_MODULES if get_reader(name).can_read(path, outline)] == [path.parent.name]


@pytest.mark.parametrize("name", ["asv", "perfci"])
def test_exactly_one_format_claims_a_generated_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x"
    content = (
        run_document.dump_run(a_run())
        if name == "perfci"
        else json.dumps(a_result_file({"a.time_b": a_row([1.0])}))
    )
    path.write_text(content)

    outline = ContentOutline(read_decompressed_head(path, HEAD_BYTES))

    assert [
        reader_name for reader_name in READER_MODULES if get_reader(reader_name).can_read(path, outline)
    ] == [name]


def test_an_odd_order_of_keys_is_found_behind_the_head(tmp_path: Path) -> None:
    content = json.loads(run_document.dump_run(a_run()))
    schema = content.pop("schema")
    path = tmp_path / "late.json"
    path.write_text(json.dumps({"origin": {"padding": "x" * HEAD_BYTES}} | content | {"schema": schema}))

    assert detect_format(path) == "perfci"


def test_words_of_another_format_in_names_and_texts_do_not_mislead(tmp_path: Path) -> None:
    words = [
        {
            "name": '{"schema": "perfci.run/1"}',
            "unit": "ms",
            "value": 1,
            "extra": '"machine_info" "commit_info"',
        },
        {"name": '"benchmark_values"', "unit": "ms", "value": 2, "extra": {"schema": "perfci.run/1"}},
    ]
    path = tmp_path / "words.json"
    path.write_text(json.dumps(words))

    assert detect_format(path) == "generic"


def test_what_perfci_exports_for_another_tool_is_of_that_format(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    path.write_bytes(b"".join(pytorch_writer.serialize_runs([a_run(a_result())], lambda _: None)))

    assert detect_format(path) == "pytorch"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x.bin", b"\x80\x04\x95", "is a pickle: loading such files can run code"),
        ("x.json", b"PK\x03\x04", "is a zip archive, as torch.save and numpy.savez write them"),
        ("x", b"\x93NUMPY\x01", "is a numpy array"),
        ("x.pkl", b"(dp0\n.", "is called .pkl"),
        ("x.pt", b"{}", "is called .pt"),
    ],
)
def test_an_executable_pickle_is_refused(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(PerfciError, match=says):
        detect_format(tmp_path / name)


@pytest.mark.parametrize("content", [b'{"a": "' + rb"\"" * 200_000, b'{"a": "' + b"x" * 5_000_000 + b'"}'])
def test_a_long_text_is_outlined_in_one_pass(content: bytes) -> None:
    assert ContentOutline(content).keys.keys() == {("a",)}
