"""Metric groups of ``ModelBench``, one a module: each runs the model once and reads everything that run
gives.
"""
