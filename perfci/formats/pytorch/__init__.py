"""Benchmark records of pytorch/pytorch (v3), read and written."""
