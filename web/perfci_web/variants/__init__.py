"""Stored comparisons of variants, ablations and goals."""
