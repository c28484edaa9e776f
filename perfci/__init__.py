"""perfci: continuous performance regression service for PyTorch code."""

__version__ = "0.1.0"
