"""Use cases that measure: comparisons, ranges, variants, ablations and wrapped scripts."""
