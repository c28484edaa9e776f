"""What Alembic runs to migrate: always on the connection, and in the transaction, of the caller."""

from alembic import context

from perfci.store.tables.base import TableBase

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=TableBase.metadata,
    transactional_ddl=True,
)
context.run_migrations()
