"""The base of every table of ``perfci.toml``: frozen, without unknown keys."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ConfigTable(BaseModel):
    """A frozen table that rejects unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)
