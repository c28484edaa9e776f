"""A suite of the newest commit calls the code of older ones, which take fewer arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perfci.bench import call_with_accepted


@dataclass
class OldConfig:
    layers: int = 2


def takes_anything(**named: Any) -> dict[str, Any]:
    return named


def test_leaves_out_what_an_older_signature_does_not_know() -> None:
    assert call_with_accepted(OldConfig, layers=4, bias=False) == OldConfig(4)


def test_passes_everything_to_a_function_that_takes_any_name() -> None:
    assert call_with_accepted(takes_anything, layers=4, bias=False) == {"layers": 4, "bias": False}


def test_passes_positional_arguments_as_they_are() -> None:
    assert call_with_accepted(lambda model, *, lr=0.1: (model, lr), "net", lr=0.2, fused=True) == ("net", 0.2)
