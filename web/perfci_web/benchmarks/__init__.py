"""The list of benchmarks."""
