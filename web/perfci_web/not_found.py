"""A page that does not exist, said helpfully: what was asked for, and what there is instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

CLOSE = 0.4
MOST_OFFERS = 8


@dataclass(frozen=True, slots=True)
class Offer:
    """Something that does exist."""

    label: str
    address: str


class Missing(Exception):
    """Answered with 404 and a page that offers what there is."""

    def __init__(self, text: str, offers: Iterable[Offer] = (), offering: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.offers = tuple(offers)
        self.offering = offering


def nearest(asked: str, known: Sequence[Offer]) -> list[Offer]:
    """The offers whose names look most like what was asked for; the first ones where nothing does."""
    by_label = {offer.label: offer for offer in known}
    close = difflib.get_close_matches(asked, by_label, n=MOST_OFFERS, cutoff=CLOSE)
    return [by_label[label] for label in close] or list(by_label.values())[:MOST_OFFERS]
