"""What was measured at a commit, and how it differs from the commit before."""
