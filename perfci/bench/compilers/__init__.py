"""What ``torch.compile`` costs, and what its caches hold."""
