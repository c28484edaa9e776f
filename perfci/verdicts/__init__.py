"""Model values in, model values out: what the measured numbers mean."""
