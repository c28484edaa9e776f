"""``perfci doctor``: collect facts, check each with a pure function, and report findings."""

from perfci.doctor.findings import CheckLevel, DoctorFinding
from perfci.doctor.run_checks import DoctorTarget, run_checks

__all__ = ["CheckLevel", "DoctorFinding", "DoctorTarget", "run_checks"]
