"""Takes the values of Secrets out of tombstones and recorded versions, when what is stored of a document
changes.

The rows themselves are rewritten by the snapshot that a new projection brings (mirror.md §5); what is past
has no such second chance.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_WHERE = " WHERE cluster = :cluster AND api_group = :api_group AND resource = :resource"
_CUT = {
    "postgresql": "(object - 'data' - 'stringData') #- ARRAY['metadata', 'annotations', :last_applied]",
    "sqlite": "json_remove(object, '$.data', '$.stringData', :in_object)",
}
_CUT_ANNOTATIONS = {
    "postgresql": "annotations - CAST(:last_applied AS text)",
    "sqlite": "json_remove(annotations, :annotation)",
}


async def redact_past(connection: AsyncConnection, cluster: str, api_group: str, resource: str) -> bool:
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
    cut = f"object = {_CUT[dialect]}{_WHERE}"
    annotations = f"annotations = {_CUT_ANNOTATIONS[dialect]}"
    for statement in (
        f"UPDATE syncd_deleted_objects SET {annotations}, {cut}",  # noqa: S608 - our own names
        f"UPDATE syncd_changes SET {cut} AND object IS NOT NULL",  # noqa: S608 - our own names
    ):
        await connection.execute(sa.text(statement), values)
    return True
