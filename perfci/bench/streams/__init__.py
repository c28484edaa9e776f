"""Generation and serving: requests, latencies and percentiles."""
