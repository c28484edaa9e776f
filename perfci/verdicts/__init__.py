"""Decisions on measured series: comparisons, change points, incidents, goals."""
