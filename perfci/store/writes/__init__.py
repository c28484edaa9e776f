"""Write runs, processes and verdicts, alone or many in one commit."""
