"""Short names of machines and variants in addresses.

Each is derived from the machine or variant alone, so that it is the same in every store, and goes on to be
when others appear: an address means one series for ever.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from perfci.model import Machine, Variant
from perfci.report.series_places import short_axis_text

MAX_READABLE_LENGTH, HASH_LENGTH = 24, 4

MAX_SLUGS = 1000
"""Slugs that are kept: a page writes the same few for each of its series."""

UNKNOWN_HARDWARE = ("", None, None, "", 0)


@lru_cache(MAX_SLUGS)
def machine_slug(machine: Machine) -> str:
    """The short name of a machine class: ``ubuntu-latest``, ``8x-nvidia-h200-3fa1``."""
    hardware = (machine.cpu, machine.cores, machine.memory_gb, machine.accelerator, machine.accelerators)
    if machine.name and hardware == UNKNOWN_HARDWARE:
        return _slug_of_name(machine.name)
    model = machine.name or machine.accelerator or machine.cpu or "unknown"
    count = machine.accelerators if machine.accelerator else 0
    return _hashed_slug(f"{count}x {model}" if count else model, (*hardware, machine.name))


@lru_cache(MAX_SLUGS)
def variant_slug(variant: Variant) -> str:
    """The short name of a variant, such as ``py3.13``; empty for the one without axes."""
    values = dict(variant.values)
    if set(values) == {"python"}:
        return _slug_of_name(f"py{values['python']}")
    text = " ".join(short_axis_text(name, value) for name, value in variant.values)
    return _hashed_slug(text, variant.values) if values else ""


def _slug_of_name(name: str) -> str:
    """The name itself where it fits an address, else a part of it and a hash."""
    return name if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", name) else _hashed_slug(name, name)


def _hashed_slug(text: str, identity: object) -> str:
    """What is readable of a text, and a hash of what it stands for."""
    readable = re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:MAX_READABLE_LENGTH].strip("-.")
    digest = hashlib.sha256(repr(identity).encode()).hexdigest()[:HASH_LENGTH]
    return f"{readable}-{digest}" if readable else digest
