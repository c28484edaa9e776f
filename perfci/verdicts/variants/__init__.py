"""Variants of one commit: contrasts, numeric parity and ablations."""
