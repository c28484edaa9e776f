"""Statistics on plain numbers: location, intervals, rank tests, segmentation, power, error control."""
