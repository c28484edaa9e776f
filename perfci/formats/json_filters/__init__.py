"""The statistics as filters from JSON to JSON: `perfci judge` and `perfci detect`."""
