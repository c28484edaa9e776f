"""Search a range of commits for the one that moved a level."""
