"""Which object refers to which, as data: what the view `relations` is made of. `references.py` renders it."""

from __future__ import annotations

from dataclasses import dataclass

from syncd.views.expression import (
    Expression,
    Listing,
    Named,
    Path,
    case,
    coalesce,
    concat,
    document,
    equal,
    items,
    literal,
    nonempty,
    path,
    present,
)

RBAC = "rbac.authorization.k8s.io"
_POD = ("", "pods", "Pod")


@dataclass(frozen=True, slots=True)
class Place:
    """Where in an object others are named.

    Attributes:
        each: the lists around a name.
        kind: of what is named.
        name: what is named; NULL where nothing is.
    """

    each: tuple[Listing, ...]
    kind: Expression
    name: Expression


@dataclass(frozen=True, slots=True)
class Reference:
    """Objects that name others.

    Attributes:
        source: API group, plural and kind of the objects.
        places: where they name others; each that is named is one row, however often it is.
        group: the API group of what is named.
        namespaced: whether what is named is in the object's own namespace; else it is in none.
        namespace: where it is instead.
        uid: the uid that it must have.
        kinds: what can be named, where the places name several.
    """

    relation: str
    source: tuple[str, str, str]
    places: tuple[Place, ...]
    group: str = ""
    namespaced: bool = True
    namespace: Expression | None = None
    uid: Expression | None = None
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """Objects that select pods of their namespace by labels.

    Attributes:
        source: API group, plural and kind of the objects.
        selector: in the object.
        plain: it is a map of labels, and an empty one selects nothing; else a label selector, which selects
            everything where it is empty and nothing where it is absent.
    """

    source: tuple[str, str, str]
    selector: Path
    plain: bool = False


def _one(kind: str, name: Expression) -> tuple[Place, ...]:
    return (Place((), literal(kind), name),)


_VOLUME = Place(
    (items("spec.volumes"),),
    case(
        (present(path("configMap")), "ConfigMap"),
        (present(path("secret")), "Secret"),
        otherwise="PersistentVolumeClaim",
    ),
    coalesce(
        path("configMap.name"),
        path("secret.secretName"),
        path("persistentVolumeClaim.claimName"),
        case((present(path("ephemeral")), concat(path("metadata.name", root=True), "-", path("name")))),
    ),
)


def _either(configmap: str, secret: str, *lists: Listing) -> Place:
    return Place(
        lists,
        case((present(path(configmap)), "ConfigMap"), otherwise="Secret"),
        coalesce(path(f"{configmap}.name"), path(f"{secret}.name")),
    )


_MOUNTS = (
    _VOLUME,
    _either("configMap", "secret", items("spec.volumes"), items("projected.sources")),
    *(
        _either(*keys, items(f"spec.{containers}"), items(inner))
        for containers in ("containers", "initContainers")
        for inner, keys in (
            ("env", ("valueFrom.configMapKeyRef", "valueFrom.secretKeyRef")),
            ("envFrom", ("configMapRef", "secretRef")),
        )
    ),
)
_INGRESS = (
    Place((items("spec.rules"), items("http.paths")), literal("Service"), path("backend.service.name")),
    Place((), literal("Service"), path("spec.defaultBackend.service.name")),
)

REFERENCES = (
    Reference(
        "RUNS_ON", _POD, _one("Node", Named("pod_node", nonempty(path("spec.nodeName")))), namespaced=False
    ),
    Reference(
        "USES_SERVICE_ACCOUNT", _POD, _one("ServiceAccount", nonempty(path("spec.serviceAccountName")))
    ),
    Reference("MOUNTS", _POD, _MOUNTS, kinds=("ConfigMap", "Secret", "PersistentVolumeClaim")),
    Reference(
        "BOUND_TO",
        ("", "persistentvolumeclaims", "PersistentVolumeClaim"),
        _one("PersistentVolume", nonempty(path("spec.volumeName"))),
        namespaced=False,
    ),
    Reference(
        "BOUND_TO",
        ("", "persistentvolumes", "PersistentVolume"),
        _one("PersistentVolumeClaim", path("spec.claimRef.name")),
        namespace=path("spec.claimRef.namespace"),
        uid=path("spec.claimRef.uid"),
    ),
    *(
        Reference(
            "BOUND_TO",
            (RBAC, resource, kind),
            _one(role, case((equal(path("roleRef.kind"), role), path("roleRef.name")))),
            RBAC,
            namespaced=role == "Role",
        )
        for resource, kind, role in (
            ("rolebindings", "RoleBinding", "Role"),
            ("rolebindings", "RoleBinding", "ClusterRole"),
            ("clusterrolebindings", "ClusterRoleBinding", "ClusterRole"),
        )
    ),
    Reference("ROUTES_TO", ("networking.k8s.io", "ingresses", "Ingress"), _INGRESS, kinds=("Service",)),
)

SELECTIONS = (
    Selection(("", "services", "Service"), document("spec.selector"), plain=True),
    Selection(("policy", "poddisruptionbudgets", "PodDisruptionBudget"), document("spec.selector")),
    Selection(("networking.k8s.io", "networkpolicies", "NetworkPolicy"), document("spec.podSelector")),
)
