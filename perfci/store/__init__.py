"""The database of measurements and verdicts: tables, queries, writes and migrations."""

from perfci.store.maintenance.backup_restore_upgrade import backup, restore, upgrade, upgrade_if_older
from perfci.store.maintenance.integrity_checks import check_integrity
from perfci.store.open_database import open_store
from perfci.store.transactions import Store

__all__ = ["Store", "backup", "check_integrity", "open_store", "restore", "upgrade", "upgrade_if_older"]
