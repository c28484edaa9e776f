"""Forms that mark runs and points as invalid."""
