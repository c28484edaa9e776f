"""The worker process: evaluates projects and runs periodic jobs."""
