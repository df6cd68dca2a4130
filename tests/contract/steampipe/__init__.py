"""Steampipe's names over a mirror in PostgreSQL. The schema is one a database: the tests have their own."""
