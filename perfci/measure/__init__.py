"""Use cases that measure: comparisons, ranges, variants, ablations and wrapped scripts, on top of the runner."""
