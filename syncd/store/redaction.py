"""Takes the values of Secrets out of tombstones, when what is stored of a document changes.

The rows themselves are rewritten by the snapshot that a new projection brings (mirror.md §5); a tombstone
has no such second chance.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_WHERE = " WHERE cluster = :cluster AND api_group = :api_group AND resource = :resource"
_STATEMENTS = {
    "postgresql": (
        "UPDATE syncd_deleted_objects SET annotations = annotations - CAST(:last_applied AS text),"
        " object = (object - 'data' - 'stringData') #- ARRAY['metadata', 'annotations', :last_applied]"
    ),
    "sqlite": (
        "UPDATE syncd_deleted_objects SET annotations = json_remove(annotations, :annotation),"
        " object = json_remove(object, '$.data', '$.stringData', :in_object)"
    ),
}


async def redact_tombstones(connection: AsyncConnection, cluster: str, api_group: str, resource: str) -> bool:
    """Redacted or not before, their values are gone afterwards. False for anything but Secrets."""
    if (api_group, resource) != ("", "secrets"):
        return False
    dialect = connection.dialect.name
    values = {"cluster": cluster, "api_group": api_group, "resource": resource}
    if dialect == "postgresql":
        values["last_applied"] = _LAST_APPLIED
    else:
        values["annotation"] = f'$."{_LAST_APPLIED}"'
        values["in_object"] = f'$.metadata.annotations."{_LAST_APPLIED}"'
    await connection.execute(sa.text(_STATEMENTS[dialect] + _WHERE), values)
    return True
