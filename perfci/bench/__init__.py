"""What the author of a suite imports: clocks that wait for the device, and peak memory that repeats exactly.

Importing this room is cheap: torch is imported by the first function that needs it.
"""

from perfci.bench.clocks import cpu_clock, wall_clock
from perfci.bench.memory import peak_allocated_bytes, peak_tensor_bytes

__all__ = ["cpu_clock", "peak_allocated_bytes", "peak_tensor_bytes", "wall_clock"]
