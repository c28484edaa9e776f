"""Other processes: children, distributed ranks and what these send each other."""
