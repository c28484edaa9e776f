"""Dropout of a model: what it drops with which probability, and the same model without it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

PROBABILITY_NAMES = ("p", "dropout", "dropout_p", "attn_dropout", "attention_dropout", "attn_pdrop")
"""Attributes in which modules keep a probability: ``p`` those of torch's dropout, ``dropout`` its attention
and recurrent layers and nanoGPT, the others models of transformers.
"""


def dropout_probabilities(model: Any) -> tuple[float, ...]:
    """The probabilities above 0 of all modules, in the order of ``model.modules()``."""
    return tuple(getattr(module, name) for module, name in _find_dropout(model))


def disable_dropout(model: Any) -> None:
    """Set them to 0, in place."""
    for module, name in list(_find_dropout(model)):
        setattr(module, name, 0.0)


def _find_dropout(model: Any) -> Iterator[tuple[Any, str]]:
    for module in model.modules() if isinstance(model, torch.nn.Module) else ():
        is_dropout = isinstance(module, torch.nn.modules.dropout._DropoutNd)
        for name in PROBABILITY_NAMES if is_dropout else PROBABILITY_NAMES[1:]:
            value = getattr(module, name, 0.0)
            if isinstance(value, float) and 0.0 < value <= 1.0:
                yield module, name
