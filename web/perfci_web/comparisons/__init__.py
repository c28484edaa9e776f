"""Two commits beside each other."""
