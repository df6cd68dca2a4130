"""A custom type's view on both dialects: typed columns, values that fit no schema, what kubectl prints."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from syncd.app.viewing import show
from syncd.core.definition import definition
from syncd.core.document import Transform
from syncd.core.resource import Cause, Resource, Stream
from syncd.views.custom import view
from syncd.views.rendering import kubectl
from syncd.views.view import View
from tests.contract.mirror_case import Mirror, Place, opened
from tests.contract.views.case import Row, plain, rows

CERTIFICATES = Resource("cert-manager.io", "v1", "certificates", "Certificate", namespaced=True)
DEFINITION: dict[str, Any] = {
    "metadata": {"name": "certificates.cert-manager.io", "uid": "crd-1", "generation": 1},
    "spec": {
        "group": "cert-manager.io",
        "scope": "Namespaced",
        "names": {"plural": "certificates", "kind": "Certificate"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "additionalPrinterColumns": [
                    {
                        "name": "Ready",
                        "type": "string",
                        "jsonPath": '.status.conditions[?(@.type == "Ready")].status',
                    },
                    {"name": "Secret", "type": "string", "jsonPath": ".spec.secretName"},
                    {"name": "Names", "type": "string", "jsonPath": ".spec.dnsNames", "priority": 1},
                    {"name": "Revision", "type": "integer", "jsonPath": ".status.revision"},
                    {"name": "Load", "type": "number", "jsonPath": ".status.load"},
                    {"name": "CA", "type": "boolean", "jsonPath": ".spec.isCA"},
                    {"name": "Odd", "type": "string", "jsonPath": "..odd"},
                    {"name": "Order", "type": "string", "jsonPath": ".spec.order"},  # reserved in SQL
                    {"name": "Ends", "type": "date", "jsonPath": ".status.notAfter"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "properties": {
                            "spec": {
                                "properties": {
                                    "secretName": {"type": "string"},
                                    "isCA": {"type": "boolean"},
                                    "limit": {"type": "integer"},
                                    "share": {"type": "number"},
                                    "port": {"x-kubernetes-int-or-string": True},
                                    "dnsNames": {"type": "array"},
                                }
                            },
                            "status": {"properties": {"notAfter": {"type": "string", "format": "date-time"}}},
                        }
                    }
                },
            }
        ],
    },
}
FULL: dict[str, Any] = {
    "spec": {
        "secretName": "web-tls",
        "isCA": False,
        "limit": 3,
        "share": 0.25,
        "port": 8080,
        "dnsNames": ["a.example.com", "b.example.com"],
    },
    "status": {
        "conditions": [{"type": "Issuing", "status": "False"}, {"type": "Ready", "status": "True"}],
        "revision": 2,
        "load": 1.5,
        "notAfter": "2026-04-05T09:59:00Z",
    },
}
ODD: dict[str, Any] = {
    "spec": {
        "secretName": "two\nlines",
        "isCA": "no",
        "limit": "three",
        "share": "much",
        "port": "http",
        "dnsNames": {"b": [1, None], "a": "é"},
    },
    "status": {"conditions": {"Ready": "True"}, "revision": 1.5, "load": "2", "notAfter": "soon"},
}
ODDER: dict[str, Any] = {
    "spec": {"secretName": None, "share": 3, "dnsNames": ["<a>&b\u2028", "\\u003c"]},
    "status": {"revision": "2", "load": 10**16, "notAfter": ""},
}
WANTED: dict[str, Row] = {
    "full": {
        "ready": "True",
        "secret": "web-tls",
        "names": '["a.example.com","b.example.com"]',
        "revision": 2,
        "load": 1.5,
        "ca": 0,
        "odd": None,
        "age": "2026-01-02 03:04:05.000000",
        "secret_name": "web-tls",
        "is_ca": 0,
        "limit": 3,
        "share": 0.25,
        "port": "8080",
        "dns_names": ["a.example.com", "b.example.com"],
        "not_after": "2026-04-05 09:59:00.000000",
    },
    "odd": {
        "ready": None,
        "secret": "two\nlines",
        "names": '{"a":"é","b":[1,null]}',
        "revision": None,
        "load": None,
        "ca": None,
        "is_ca": None,
        "limit": None,
        "share": None,
        "port": "http",
        "not_after": None,
    },
    "odder": {"names": '["<a>&b\u2028","\\\\u003c"]', "load": 1e16, "share": 3.0},
    "bare": dict.fromkeys(("ready", "secret", "names", "revision", "ca", "limit", "dns_names", "not_after")),
}
PRINTED = {
    "full": ["web-tls", "True", '["a.example.com","b.example.com"]', "2", "1.5", "false", ""],
    "odd": ["two...", "", '{"a":"é","b":[1,null]}', "1", "", "", ""],
    "odder": [
        "<no value>",
        "",
        '["\\u003ca\\u003e\\u0026b\\u2028","\\\\u003c"]',
        "",
        "10000000000000000",
        "",
        "",
    ],
    "bare": ["", "", "", "", "", "", ""],
}
ENDS = {"odd": "<invalid>", "odder": "<unknown>", "bare": ""}


@asynccontextmanager
async def mirrored(place: Place) -> AsyncIterator[Mirror]:
    async with opened(place) as mirror:
        transform = Transform(CERTIFICATES)
        items = []
        objects: dict[str, dict[str, Any]] = {"full": FULL, "odd": ODD, "odder": ODDER, "bare": {}}
        for number, (name, content) in enumerate(objects.items(), 1):
            metadata = {
                "name": name,
                "namespace": "shop",
                "uid": f"u{number}",
                "resourceVersion": str(number),
                "creationTimestamp": "2026-01-02T03:04:05Z",
            }
            document = {"metadata": metadata, **content}
            text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            for sign in "<>&\u2028\u2029":  # as a server writes them
                text = text.replace(sign, f"\\u{ord(sign):04x}")
            items.append(transform(text.encode()))
        await mirror.open(*items, stream=Stream("prod", CERTIFICATES))
        await mirror.store.keep_definitions("prod", [definition(json.dumps(DEFINITION).encode())])
        assert not [outcome for outcome in await show(mirror.database) if outcome.note]
        yield mirror


async def shape(mirror: Mirror) -> View:
    [type_] = await mirror.database.described(await mirror.database.types())
    return view(type_)


async def test_columns_and_what_kubectl_prints(place: Place) -> None:
    async with mirrored(place) as mirror:
        made = await shape(mirror)
        for name in ("certificates", "certificates_cert_manager_io"):
            found = {row["name"]: plain(made, row) for row in rows(place, f"SELECT * FROM {name}")}
            for key, wanted in WANTED.items():
                assert {column: found[key][column] for column in wanted} == wanted, key
        printed = {row["Name"]: row for row in rows(place, kubectl(made, place.dialect, "certificates"))}
        headings = ["Secret", "Ready", "Names", "Revision", "Load", "CA", "Odd"]
        assert {key: [row[heading] for heading in headings] for key, row in printed.items()} == PRINTED
        assert all(row["Age"] and row["Namespace"] == "shop" for row in printed.values())
        assert {key: printed[key]["Ends"] for key in ENDS} == ENDS
        assert rows(place, "SELECT share / 2 AS half FROM certificates WHERE name = 'odder'") == [
            {"half": 1.5}
        ]
        said = "SELECT description FROM dictionary WHERE relation = 'certificates' AND column_name = 'odd'"
        assert "cannot be said in SQL" in rows(place, said)[0]["description"]


@pytest.mark.postgres
async def test_both_dialects_give_the_same_rows(sqlite_place: Place, postgres_place: Place) -> None:
    varying = {"first_seen_at", "committed_at", "stream_id"}
    async with mirrored(sqlite_place) as mirror, mirrored(postgres_place):
        made = await shape(mirror)
        kept, served = (
            [
                {key: value for key, value in plain(made, row).items() if key not in varying}
                for row in rows(place, "SELECT * FROM certificates ORDER BY uid")
            ]
            for place in (sqlite_place, postgres_place)
        )
    assert len(kept) == 4
    assert kept == served


async def test_a_definition_that_changes_appends_and_a_rebuild_takes_away(place: Place) -> None:
    async with mirrored(place) as mirror:
        before = list(rows(place, "SELECT * FROM certificates")[0])
        changed = json.loads(json.dumps(DEFINITION))
        changed["metadata"]["generation"] = 2
        properties = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        properties["spec"]["properties"] = {"limit": {"type": "integer"}, "added": {"type": "string"}}
        await mirror.store.keep_definitions("prod", [definition(json.dumps(changed).encode())])
        await show(mirror.database)
        [row] = rows(place, "SELECT * FROM certificates WHERE name = 'full'")
        assert list(row) == [*before, "added"]
        assert (row["limit"], row["share"]) == (3, None)
        await show(mirror.database, rebuild=True)
        after = list(rows(place, "SELECT * FROM certificates")[0])
        assert set(before) - set(after) == {"secret_name", "is_ca", "share", "port", "dns_names"}
        assert set(after) - set(before) == {"added"}
        assert after[-1] == "stream_id"


async def test_a_type_that_no_stream_selects_has_no_view(place: Place) -> None:
    async with mirrored(place) as mirror:
        stream_id = rows(place, "SELECT stream_id FROM syncd_streams")[0]["stream_id"]
        await mirror.store.retire(stream_id, cause=Cause.DESELECTED)
        await show(mirror.database)
        query = "SELECT count(*) AS n FROM dictionary WHERE subject = 'cert-manager.io/certificates'"
        assert rows(place, query) == [{"n": 0}]
