"""Several series in one chart."""
