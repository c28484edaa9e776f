"""``perfci doctor``: facts are observed, checked one by one by pure functions, and told as findings."""

from perfci.doctor.examination import Patient, examine
from perfci.doctor.findings import Finding, Level

__all__ = ["Finding", "Level", "Patient", "examine"]
