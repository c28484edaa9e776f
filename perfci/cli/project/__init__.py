"""``perfci project``: projects, their members and the repository bound to each."""
