"""Services and what carries traffic to them."""

from __future__ import annotations

from syncd.views.expression import (
    above,
    among,
    case,
    coalesce,
    concat,
    equal,
    integer,
    items,
    join,
    nonempty,
    path,
)
from syncd.views.selector import labels_text
from syncd.views.view import AGE, View, json, number, text

# IP else host name of every load balancer, a sorted set.
_INGRESS = items("status.loadBalancer.ingress")
BALANCERS = join(_INGRESS, nonempty(coalesce(nonempty(path("ip")), path("hostname"))), unique=True)

_TYPE = path("spec.type")
_EXTERNAL_IPS = join(items("spec.externalIPs"))
_EXTERNAL = case(
    (among(_TYPE, "ClusterIP", "NodePort"), coalesce(_EXTERNAL_IPS, "<none>")),
    (
        equal(_TYPE, "LoadBalancer"),
        coalesce(concat(BALANCERS, ",", _EXTERNAL_IPS), BALANCERS, _EXTERNAL_IPS, "<pending>"),
    ),
    (equal(_TYPE, "ExternalName"), coalesce(path("spec.externalName"), "")),
    otherwise="<unknown>",
)
_PORT = case(
    (
        above(integer("nodePort"), 0),
        concat(integer("port"), ":", integer("nodePort"), "/", path("protocol")),
    ),
    otherwise=concat(integer("port"), "/", path("protocol")),
)

SERVICES = View(
    "services",
    ("",),
    "Service",
    "Services: names and addresses for sets of pods.",
    (
        text("type", "spec.type", "ClusterIP, NodePort, LoadBalancer or ExternalName.", "Type"),
        text(
            "cluster_ip",
            nonempty(coalesce(path("spec.clusterIPs.0"), path("spec.clusterIP"))),
            "Its first address inside the cluster; None for a headless one.",
            "Cluster-IP",
            "<none>",
        ),
        text(
            "external_ip",
            _EXTERNAL,
            "Its addresses outside as kubectl prints them: <none>, <pending>, or a list.",
            "External-IP",
        ),
        text("ports", join(items("spec.ports"), _PORT), "`80:30080/TCP,443/TCP`.", "Port(s)", "<none>"),
        AGE,
        text("selector", labels_text("spec.selector"), "The labels of its pods.", "Selector", "<none>"),
        json("selector_json", "spec.selector", "The same as it is in the object."),
        text("load_balancer", BALANCERS, "Addresses and host names of its load balancers."),
        text("external_ips", _EXTERNAL_IPS, "Addresses given by hand."),
        text("external_name", "spec.externalName", "The name that it stands for, of type ExternalName."),
        text("load_balancer_class", "spec.loadBalancerClass", "What provides its load balancer."),
        text("session_affinity", "spec.sessionAffinity", "None or ClientIP."),
        text("ip_families", join(items("spec.ipFamilies")), "IPv4, IPv6 or both."),
        text("external_traffic_policy", "spec.externalTrafficPolicy", "Cluster or Local."),
        text("internal_traffic_policy", "spec.internalTrafficPolicy", "Cluster or Local."),
        number("health_check_node_port", "spec.healthCheckNodePort", "Where a load balancer asks."),
    ),
)
