"""The page of one series, its chart and its twins."""
