"""Benchmarks that got faster at one place and slower at another."""
