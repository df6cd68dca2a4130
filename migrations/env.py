"""Runs revisions on the connection that syncd hands over; `syncd migrate` is the way in."""

from alembic import context

connection = context.config.attributes.get("connection")
if connection is None:
    raise SystemExit("run `syncd migrate`: it chooses the database from syncd's configuration")

context.configure(connection=connection, version_table="syncd_migrations")
with context.begin_transaction():
    context.run_migrations()
