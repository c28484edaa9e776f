"""Suite for A/A runs: what differs between its processes is the noise of the machine."""
