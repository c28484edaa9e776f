"""What stored results say: points, change points, calibration and replays, without a runner or GitHub."""
