"""What changed under the benchmarks: drivers, libraries and kernels of each machine."""
