"""How Alembic runs here: on the connection and inside the transaction that `migrate.upgrade` opened."""

from __future__ import annotations

from alembic import context

from ebbtide.adapters.stores.sql.schema import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
)
context.run_migrations()
