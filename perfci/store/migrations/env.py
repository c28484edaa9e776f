"""What Alembic runs to migrate: always on the connection, and in the transaction, of the caller."""

from alembic import context

from perfci.store.tables.measurements import Table

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Table.metadata,
    transactional_ddl=True,
)
context.run_migrations()
