"""A suite for measuring equals: what differs between its processes is what the machine does to them."""
