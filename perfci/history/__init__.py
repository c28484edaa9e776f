"""Evaluate stored results: points, change points, noise, and verdicts judged again by a new policy."""
