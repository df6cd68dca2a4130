"""The bare loop that lag is compared with: read a watch, upsert one row, commit, and nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psycopg

from bench.access import Access


def main(kubeconfig: str, context: str, url: str, version: str, database: str, schema: str) -> None:
    access = Access(Path(kubeconfig), context)
    query = f"watch=1&resourceVersion={version}&allowWatchBookmarks=true&timeoutSeconds=3600"
    answer = access.ask(access.open(), "GET", f"{url}/pods?{query}")
    with psycopg.connect(database, autocommit=True) as store:
        store.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        store.execute(
            f"CREATE TABLE {schema}.bare"
            " (key text PRIMARY KEY, resource_version text, annotations jsonb, object jsonb)"
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
                " resource_version = excluded.resource_version, annotations = excluded.annotations,"
                " object = excluded.object",
                (
                    f"{metadata['namespace']}/{metadata['name']}",
                    metadata["resourceVersion"],
                    json.dumps(metadata.get("annotations")),
                    json.dumps(event["object"]),
                ),
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
