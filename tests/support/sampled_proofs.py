"""A promise held by a sample in `make test`, and as a whole in `make proof`."""

from __future__ import annotations

import pytest


def sample_or_whole(name: str, sample: int, whole: int) -> pytest.MarkDecorator:
    """How much of something a test looks at: a number it takes as an argument."""
    return pytest.mark.parametrize(name, [sample, pytest.param(whole, marks=pytest.mark.proof)])
