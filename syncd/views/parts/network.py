"""Ports of services, and where ingresses lead."""

from __future__ import annotations

from syncd.views.expression import (
    ITEM,
    Call,
    Literal,
    Path,
    Type,
    call,
    coalesce,
    default,
    equal,
    first,
    items,
    path,
    present,
)
from syncd.views.part import Part, Rows
from syncd.views.view import number, text

SERVICE_PORTS = Part(
    "service_ports",
    "Ports of services.",
    (
        text(
            "type",
            path("spec.type", root=True),
            "The service's: ClusterIP, NodePort, LoadBalancer or ExternalName.",
        ),
        text("port_name", "name", "The port's name."),
        number("port", "port", "The port of the service."),
        text("protocol", default(path("protocol"), "TCP"), "TCP, UDP or SCTP."),
        text(
            "target_port",
            call("text", Type.TEXT, path("targetPort")),
            "The port of the pods, by number or by name.",
        ),
        number("node_port", "nodePort", "The port of every node."),
        text("app_protocol", "appProtocol", "What is spoken on it."),
    ),
    (Rows((("", "services"),), (items("spec.ports"),)),),
)

_INGRESSES = (("networking.k8s.io", "ingresses"),)
_DEFAULT = path("spec.defaultBackend")


def _backend(*keys: str) -> Path:
    return path("backend", *keys)


def _number(value: Path) -> Call:
    return call("text", Type.TEXT, value)


# Of the first entry that names the host.
_TLS = first(
    (items("spec.tls", root=True), items("hosts")), path("secretName", up=1), equal(ITEM, path("host", up=3))
)


INGRESS_RULES = Part(
    "ingress_rules",
    "Where ingresses lead: a row a path of a rule, and one for the default backend.",
    (
        text("ingress_class", path("spec.ingressClassName", root=True), "Which controller serves it."),
        text("host", path("host", up=1), "The host; NULL is every host."),
        text("path", "path", "The path; NULL is every path."),
        text("path_type", "pathType", "Exact, Prefix or ImplementationSpecific."),
        text("service_name", _backend("service", "name"), "The service that it leads to."),
        text(
            "service_port",
            coalesce(_backend("service", "port", "name"), _number(_backend("service", "port", "number"))),
            "The port of the service, by number or by name.",
        ),
        text(
            "resource_kind",
            _backend("resource", "kind"),
            "The kind of what it leads to instead of a service.",
        ),
        text("resource_name", _backend("resource", "name"), "The name of that."),
        text("tls_secret", _TLS, "The secret with the certificate for the host."),
    ),
    (
        Rows(_INGRESSES, (items("spec.rules"), items("http.paths", outer=True))),
        Rows(
            _INGRESSES,
            where=present(_DEFAULT),
            values={
                "host": Literal(None),
                "path": Literal(None),
                "path_type": Literal(None),
                "service_name": path("spec.defaultBackend.service.name"),
                "service_port": coalesce(
                    path("spec.defaultBackend.service.port.name"),
                    _number(path("spec.defaultBackend.service.port.number")),
                ),
                "resource_kind": path("spec.defaultBackend.resource.kind"),
                "resource_name": path("spec.defaultBackend.resource.name"),
                "tls_secret": Literal(None),
            },
        ),
    ),
)
