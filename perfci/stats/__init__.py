"""Numbers in, numbers out: location, intervals, rank tests, segmentation, power, false-discovery control."""
