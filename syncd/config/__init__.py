"""The configuration: a YAML file in, typed models out, every error named by file, line and key.

Imported by the app and the commands alone: the other rooms receive values. Opens no database and asks no
cluster.
"""

from syncd.config.file import MINIMAL, find, inputs, json_schema, load
from syncd.config.model import Cluster, Config, Database, Limits, Log, Reconcile, ResourceEntry, Server, Sink

__all__ = [
    "MINIMAL",
    "Cluster",
    "Config",
    "Database",
    "Limits",
    "Log",
    "Reconcile",
    "ResourceEntry",
    "Server",
    "Sink",
    "find",
    "inputs",
    "json_schema",
    "load",
]
