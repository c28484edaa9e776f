"""Tokens: generated, and distinguished from typing errors by their checksum."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfci.auth.tokens import ALPHABET, hash_token, hash_token_if_valid, make_token


def test_generates_a_token_of_fifty_characters_with_a_checksum() -> None:
    minted = make_token("u")

    assert minted.text.startswith("pfciu_")
    assert len(minted.text) == 50
    assert hash_token_if_valid(minted.text) == minted.hash == hash_token(minted.text)


def test_never_generates_the_same_token_twice() -> None:
    assert len({make_token("r").text for _ in range(100)}) == 100


def test_never_prints_a_token() -> None:
    minted = make_token("a")

    assert minted.text not in repr(minted)
    assert minted.text.endswith(minted.last4)


@given(st.integers(0, 49), st.sampled_from(ALPHABET + "-_ \n"))
def test_refuses_a_token_with_one_wrong_character(place: int, character: str) -> None:
    text = make_token("u").text
    changed = text[:place] + character + text[place + 1 :]

    assert changed == text or hash_token_if_valid(changed) is None


@given(st.text())
def test_refuses_any_other_text(text: str) -> None:
    assert hash_token_if_valid(text) is None


@pytest.mark.parametrize("cut", [0, 5, 6, 49])
def test_refuses_a_part_of_a_token(cut: int) -> None:
    assert hash_token_if_valid(make_token("u").text[:cut]) is None


def test_generates_the_same_token_from_the_same_random_choices() -> None:
    assert make_token("u", lambda alphabet: alphabet[0]).text == "pfciu_" + "0" * 38 + "4UGUPc"
