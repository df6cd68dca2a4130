"""The only room that imports sqlalchemy and alembic: it implements the `Store` and `Registry` ports."""
