"""The tables of Steampipe's Kubernetes plugin as views over the mirror: its queries run unmodified.

PostgreSQL alone. Text in, text out: what applies the statements is elsewhere. The names, types and absent
values are Steampipe's public interface; `tables.txt` holds them as facts, a line a column.
"""
