"""airspeed velocity: its result files, read and written."""
