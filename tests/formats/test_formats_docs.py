"""docs/formats.md lists every format and every loss of an export."""

from __future__ import annotations

from pathlib import Path

import pytest
from format_matrix import CASES, TABLE_HEAD

from perfci.formats.asv import asv_writer
from perfci.formats.format_registry import READER_MODULES, WRITER_MODULES
from perfci.formats.pytorch import pytorch_writer

DOCS = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()

TABLE = "\n".join((*TABLE_HEAD, *(case.table_row for case in CASES)))

LOSSES = [
    value
    for module in (asv_writer, pytorch_writer)
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, str) and " " in value
]


@pytest.mark.parametrize("name", READER_MODULES)
def test_every_format_is_described(name: str) -> None:
    assert f"| `{name}` | yes" in DOCS
    assert (f"| `{name}` | yes, and written" in DOCS) == (name in WRITER_MODULES)


def test_the_table_of_what_is_tried_is_that_of_the_test() -> None:
    assert f"\n\n{TABLE}\n\n" in DOCS


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_is_listed(loss: str) -> None:
    assert f"- {loss}\n" in DOCS
