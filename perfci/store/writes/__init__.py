"""Write sessions, runs and processes, alone or many in one commit."""
