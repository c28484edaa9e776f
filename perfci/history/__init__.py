"""Evaluate stored results: points, change points, calibration, and verdicts judged again by a new policy."""
