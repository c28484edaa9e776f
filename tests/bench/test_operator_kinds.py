"""Kinds of operators, by names from traces of torch on NVIDIA and AMD GPUs and on CPUs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfci.bench.profiles.operator_kinds import KIND_PATTERNS, OTHER_KIND, classify_operator

RECORDED: dict[str, list[str]] = json.loads(
    (Path(__file__).parent / "recorded_kernel_names.json").read_text()
)


@pytest.mark.parametrize("kind", RECORDED)
def test_recorded_names_are_of_their_kind(kind: str) -> None:
    assert {name: classify_operator(name) for name in RECORDED[kind]} == dict.fromkeys(RECORDED[kind], kind)


def test_every_kind_has_recorded_names() -> None:
    assert set(RECORDED) == {*KIND_PATTERNS, OTHER_KIND}
