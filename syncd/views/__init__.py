"""What SQL users see: a view a kind, its columns as data, rendered for SQLite and for PostgreSQL.

Pure: values in, SQL text out. Nothing here touches a connection or knows a driver; `store` executes what is
rendered and `app` plugs the two together.
"""
