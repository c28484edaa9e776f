"""Verbs that profile benchmarks, and explain what grew between two profiles."""
