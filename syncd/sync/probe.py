"""Before a watch: is the stored version still one of this cluster's past?

A version from the future is accepted and stays silent for ever (recorded), so one consistent list of a
single object is asked first: the stream's newest row (mirror.md §7). It costs the server milliseconds.
"""

from __future__ import annotations

from syncd.core.change import RowVersion
from syncd.core.document import Transform
from syncd.core.errors import Invalid
from syncd.core.frames import parse_page
from syncd.core.ports import ListRequest
from syncd.core.recovery import rolled_back
from syncd.core.resource import Stream
from syncd.sync.environment import Environment
from syncd.sync.snapshot import RolledBack
from syncd.sync.writer import Writer


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
        body = await environment.api.list(stream, request)
    except Invalid:  # an aggregated API need not know these fields
        newest, body = None, await environment.api.list(stream, ListRequest(limit=1))
    page = parse_page(body)
    items = [transform(raw) for raw in page.items]
    found = next(
        ((item.uid, item.resource_version) for item in items if newest and item.key == newest.key), None
    )
    reason = rolled_back(checkpoint, page.resource_version, newest, found)
    if reason:
        raise RolledBack(reason)


def _selector(row: RowVersion | None) -> str:
    if row is None:
        return ""
    by_name = f"metadata.name={row.name}"
    return f"{by_name},metadata.namespace={row.namespace}" if row.namespace else by_name
