"""Benchmark types that asv lacks: accelerator time and memory, and the latencies of a stream of tokens.

asv_runner imports every module of ``benchmarks`` here and takes the classes that its
``export_as_benchmark`` names.
"""
