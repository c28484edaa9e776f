"""Samples that give way to whoever is measured beside them."""

import sys
from types import SimpleNamespace

import pytest

from perfci.bench.timers.timed_blocks import time_blocks
from perfci.bench.timers.turn_taking import agree_on_call_count, offer_turn


@pytest.fixture
def offers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the harness of a measured process was offered."""
    heard: list[str] = []
    harness = SimpleNamespace(
        process_turns=SimpleNamespace(
            offer_turn=lambda: heard.append("turn"), agree_on_number=lambda number: 17
        )
    )
    monkeypatch.setitem(sys.modules, "perfci_harness.turn_slots", harness)
    return heard


def test_a_process_measured_alone_never_waits() -> None:
    assert (offer_turn(), agree_on_call_count(3)) == (0.0, 3)


def test_a_turn_is_offered_before_every_block(offers: list[str]) -> None:
    timing = time_blocks(lambda: None, number=10, warmup_s=0.01, min_blocks=3, max_blocks=3)

    assert (len(timing.cpu), offers) == (3, ["turn"] * 3)


def test_a_block_has_as_many_calls_as_on_the_other_side(offers: list[str]) -> None:
    timing = time_blocks(lambda: None, warmup_s=0.01, min_blocks=3, max_blocks=3)

    assert timing.number == 17
