"""What makes the databases of the tests quick makes them no other."""

import sqlite3
from contextlib import closing
from pathlib import Path

from perfci.store.migrate_schema import migrate
from perfci.store.open_database import make_engine, parse_database_url
from tests.support.databases import migrate_again


def test_a_new_schema_equals_the_migrated_one(tmp_path: Path) -> None:
    dumps = []

    for make in (migrate, migrate_again, migrate_again):
        path = tmp_path / f"{len(dumps)}.db"
        engine = make_engine(parse_database_url(f"sqlite:///{path}"))
        make(engine)
        make(engine)
        engine.dispose()
        with closing(sqlite3.connect(path)) as made:
            dumps.append(list(made.iterdump()))

    assert dumps[0] == dumps[1] == dumps[2]
