"""One column as an SQL expression over `o`, a row of the mirror's objects.

Plain expressions, so that a column costs nothing where it is not asked for and a filter on one that the row
has (name, namespace, uid, labels, cluster) reaches the index. A JSON null is an absent value: jsonb columns
give SQL NULL for it, `#>>` does by itself; nulls inside a value stay.
"""

from __future__ import annotations

from syncd.views.steampipe.table import Column

_TYPES = {"label_set": "kubernetes.label_set"}


def literal(text: str) -> str:
    """An SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def sql_type(column: Column) -> str:
    """The column's type as SQL writes it."""
    return _TYPES.get(column.type, column.type)


def expression(column: Column) -> str:
    """What the view selects for the column."""
    if column.row:
        value = f"o.{column.row}"
    elif column.function:
        value = _derived(column)
    elif column.path:
        value = _taken(column)
    else:
        return f"NULL::{sql_type(column)}"
    if column.absent is None:
        return value
    return f"coalesce({value}, {_absent(column)})"


def _absent(column: Column) -> str:
    assert column.absent is not None
    return f"{literal(column.absent)}::jsonb" if column.type == "jsonb" else column.absent


def _taken(column: Column) -> str:
    match column.type:
        case "jsonb":
            return _json(column.path)
        case "text":
            return _text(column.path)
        case "inet":
            return f"kubernetes.inet_of({_text(column.path)})"  # the API hardly checks loadBalancerIP
        case "cidr":
            return f"kubernetes.cidr_of({_text(column.path)})"
        case _:
            return (
                f"({_text(column.path)})::{column.type}"  # the API server has checked the type of every field
            )


def _derived(column: Column) -> str:
    match column.function:
        case "deployed":
            return "'deployed'::text"
        case "context":
            return "jsonb_build_object('connection_name', o.cluster)"
        case "tags":
            return "coalesce(o.annotations, '{}'::jsonb) || coalesce(o.labels, '{}'::jsonb)"
        case "label_set":
            return "ROW(o.labels)::kubernetes.label_set"
        case "selector":
            return f"kubernetes.label_selector({_json(column.path)})"
        case "labels":
            return f"kubernetes.labels_selector({_json(column.path)})"
        case "millicores":
            return f"kubernetes.quantity({_text(column.path)}, 1000)"
        case "bytes":
            return f"kubernetes.quantity({_text(column.path)}, 1)"
        case "limits" | "requests":
            return f"kubernetes.container_resources({_json(column.path)}, {literal(column.function)})"
        case "volume_source":
            return f"{_json(column.path)} - ARRAY[{', '.join(map(literal, _NOT_A_SOURCE))}]"
        case "custom":
            return _custom(column)
        case other:
            raise ValueError(f"tables.txt: no function is named {other}")


_NOT_A_SOURCE = (
    "capacity",
    "accessModes",
    "claimRef",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "mountOptions",
    "volumeMode",
    "nodeAffinity",
    "volumeAttributesClassName",
)
"""What a PersistentVolume's spec holds besides its one source."""


def _custom(column: Column) -> str:
    """A custom resource's value. An old one was written under another schema, perhaps."""
    match column.type:
        case "bigint":
            return f"kubernetes.custom_bigint({_json(column.path)})"
        case "boolean":
            return f"kubernetes.custom_boolean({_json(column.path)})"
        case "double precision":
            return f"kubernetes.custom_double({_json(column.path)})"
        case "timestamptz":
            return f"kubernetes.custom_moment({_json(column.path)})"
        case "text":
            return _text(column.path)
        case _:
            return _json(column.path)


def _json(path: tuple[str, ...]) -> str:
    return f"nullif(o.object #> {_array(path)}, 'null'::jsonb)"


def _text(path: tuple[str, ...]) -> str:
    return f"o.object #>> {_array(path)}"


def _array(path: tuple[str, ...]) -> str:
    return f"ARRAY[{', '.join(map(literal, path))}]"
