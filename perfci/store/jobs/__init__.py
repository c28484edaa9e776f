"""Work that waits: the outbox, leases, workflow-run events and deliveries."""
