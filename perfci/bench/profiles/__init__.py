"""Profiles of a benchmark: kernels, operators, phases and Python lines."""
