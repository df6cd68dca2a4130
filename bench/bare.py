"""The bare loop that lag is compared with: read a watch, upsert one row, commit, and nothing else."""

from __future__ import annotations

import http.client
import json
import sys
from urllib.parse import urlsplit

import psycopg


def main(server: str, version: str, database: str, schema: str) -> None:
    address = urlsplit(server)
    connection = http.client.HTTPConnection(address.hostname or "", address.port)
    connection.request(
        "GET", f"/api/v1/pods?watch=1&resourceVersion={version}&allowWatchBookmarks=true&timeoutSeconds=3600"
    )
    answer = connection.getresponse()
    with psycopg.connect(database, autocommit=True) as store:
        store.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        store.execute(
            f"CREATE TABLE {schema}.bare"
            " (key text PRIMARY KEY, version text, annotations jsonb, object jsonb)"
        )
        print("ready", flush=True)
        while line := answer.readline():
            event = json.loads(line)
            if event["type"] == "BOOKMARK":
                continue
            metadata = event["object"]["metadata"]
            metadata.pop("managedFields", None)
            store.execute(
                f"INSERT INTO {schema}.bare VALUES (%s, %s, %s, %s) ON CONFLICT (key) DO UPDATE SET"
                " version = excluded.version, annotations = excluded.annotations, object = excluded.object",
                (
                    f"{metadata['namespace']}/{metadata['name']}",
                    metadata["resourceVersion"],
                    json.dumps(metadata.get("annotations")),
                    json.dumps(event["object"]),
                ),
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
