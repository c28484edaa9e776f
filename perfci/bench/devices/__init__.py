"""What a benchmark runs on: torch devices, NVML, peak rates, energy and number formats."""
