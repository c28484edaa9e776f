"""Metric groups of ``ModelBench``, one a module; each runs the model once for all its metrics."""
