"""``perfci doctor``: facts are observed, checked one by one by pure functions, and told as findings."""

from perfci.doctor.examination import DoctorTarget, run_checks
from perfci.doctor.findings import CheckLevel, DoctorFinding

__all__ = ["CheckLevel", "DoctorFinding", "DoctorTarget", "run_checks"]
