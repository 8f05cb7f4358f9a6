"""Alembic's entry: the connection of the service that migrates, or a URL on the command line (`-x url=...`)."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, create_engine

from shardwise.service.tables import Table


def migrate(connection: Connection) -> None:
    context.configure(
        connection=connection, target_metadata=Table.metadata, render_as_batch=True, transaction_per_migration=False
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    migrate(given)
else:
    with create_engine(context.get_x_argument(as_dictionary=True)["url"]).begin() as connection:
        migrate(connection)
