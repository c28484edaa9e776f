"""Evaluate stored results: points, change points, calibration and replays, without a runner or GitHub."""
