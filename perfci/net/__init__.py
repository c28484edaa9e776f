"""What leaves and reaches this machine: the typed client, the spool, and the shapes that travel."""
