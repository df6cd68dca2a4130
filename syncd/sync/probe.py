"""Before a watch: is the stored version still one of this cluster's past?

A version from the future is accepted and stays silent for ever (recorded), so one consistent list of a
single object is asked first: the stream's newest row (mirror.md §7). It costs the server milliseconds.
"""

from __future__ import annotations

import re
from dataclasses import replace

from syncd.core.change import RowVersion
from syncd.core.document import Transform
from syncd.core.errors import Expired, Invalid, NotAllowed, NotFound, VersionTooLarge
from syncd.core.frames import Page, parse_page
from syncd.core.ports import ListRequest
from syncd.core.recovery import rolled_back
from syncd.core.resource import Stream, compare_versions
from syncd.sync.environment import Environment
from syncd.sync.snapshot import RolledBack
from syncd.sync.writer import Writer

_SPECIAL = re.compile(r"[\\,=]")  # in the value of a field selector; names of roles may hold any of them


async def probe(
    environment: Environment, stream: Stream, transform: Transform, writer: Writer, checkpoint: str
) -> None:
    """Asks the cluster for its version and for the stream's newest object.

    Raises:
        RolledBack: either is behind what is stored.
        FenceLost: another cluster answers; a new epoch began.
        SyncdError: of the API.
    """
    await environment.verify()
    newest = await writer.attempt(lambda: environment.store.newest(writer.row))
    request = ListRequest(limit=1, field_selector=_selector(newest))
    try:
        body = await environment.api.list(_beside(newest, stream), request)
    except (Invalid, NotFound):  # an aggregated API need not know these fields, or namespaces
        newest, body = None, await environment.api.list(stream, ListRequest(limit=1))
    page = parse_page(body)
    found = _found(page, transform, newest)
    reason = rolled_back(checkpoint, page.resource_version, newest, found)
    if not reason and newest is not None and found != (newest.uid, newest.resource_version):
        key = newest.key
        # Where the database refused its newest state, the row is an older one: it contradicts nothing.
        standing = await writer.attempt(lambda: environment.store.rows(writer.row, [key]))
        if standing == [newest]:
            reason = await _contradiction(environment, stream, transform, newest, checkpoint)
    if reason:
        raise RolledBack(reason)


async def _contradiction(
    environment: Environment, stream: Stream, transform: Transform, row: RowVersion, checkpoint: str
) -> str:
    """Why the past is another one than the table's, '' where it is not, or where nobody knows any more.

    The object is gone, or was written since. In a cluster whose version went back and then ran past the
    checkpoint that looks the same, so its state at the checkpoint is asked for. Where that is compacted,
    the watch from there is refused too, and a relist decides.
    """
    # A batch cut inside one version leaves rows above the checkpoint.
    version = row.resource_version if compare_versions(row.resource_version, checkpoint) == 1 else checkpoint
    query = {
        "limit": "1",
        "fieldSelector": ",".join(filter(None, (stream.field_selector, _selector(row)))),
        "resourceVersion": version,
        "resourceVersionMatch": "Exact",
    }
    if stream.label_selector:
        query["labelSelector"] = stream.label_selector
    try:
        page = parse_page(await environment.api.get(stream.resource.path(row.namespace), query))
    except (Expired, Invalid, NotAllowed, NotFound, VersionTooLarge):
        return ""
    if page.resource_version != version:
        return ""  # an aggregated API that takes no notice of the version
    then = _found(page, transform, row)
    if then == (row.uid, row.resource_version):
        return ""
    seen = "was not there" if then is None else f"was at {then[1]}"
    return f"{row.key} {seen} in the cluster's state of {version}, its row is at {row.resource_version}"


def _found(page: Page, transform: Transform, row: RowVersion | None) -> tuple[str, str] | None:
    items = (transform(raw) for raw in page.items)
    return next(
        ((item.uid, item.resource_version) for item in items if row is not None and item.key == row.key), None
    )


def _beside(row: RowVersion | None, stream: Stream) -> Stream:
    """The stream as far as the row's namespace. There a server finds a name by its key; in all namespaces it
    looks through every object: one that reads them from etcd took ten seconds of 20,500.
    """
    return stream if row is None else replace(stream, namespace=row.namespace)


def _selector(row: RowVersion | None) -> str:
    return "" if row is None else "metadata.name=" + _SPECIAL.sub(r"\\\g<0>", row.name)
