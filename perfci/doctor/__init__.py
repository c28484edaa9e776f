"""``perfci doctor``: collect facts, check each with a pure function, and report findings."""

from perfci.doctor.examination import DoctorTarget, run_checks
from perfci.doctor.findings import CheckLevel, DoctorFinding

__all__ = ["CheckLevel", "DoctorFinding", "DoctorTarget", "run_checks"]
