"""What every table of ``perfci.toml`` is: frozen, and strict about its keys."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ConfigTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
