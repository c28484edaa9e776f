"""One benchmark and metric over two of its axes: parameters, machine and variant."""
