"""Services and what carries traffic to them."""

from __future__ import annotations

from syncd.views.expression import (
    Key,
    Type,
    above,
    absent,
    among,
    boolean,
    call,
    case,
    coalesce,
    concat,
    condition,
    count,
    equal,
    exists,
    filled,
    integer,
    items,
    join,
    nonempty,
    path,
    some,
    subtract,
    true,
)
from syncd.views.selector import label_selector, labels_text
from syncd.views.view import AGE, Cell, View, json, named_default, number, text, yes

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

_RULES = items("spec.rules")
_HOSTED = count(_RULES, filled(path("host")))
_HOSTED_BEFORE = count(
    items("spec.rules", root=True),
    call("and", Type.BOOLEAN, filled(path("host")), above(Key(Type.INTEGER, up=1), Key(Type.INTEGER))),
)
_THREE = join(_RULES, path("host"), where=filled(path("host")), limit=3)
# kubectl says how many rules there are beyond three, with a host or without.
_HOSTS = case(
    (equal(_HOSTED, 0), "*"),
    (
        exists(_RULES, above(_HOSTED_BEFORE, 2)),
        concat(_THREE, " + ", subtract(count(_RULES), 3), " more..."),
    ),
    otherwise=_THREE,
)
INGRESSES = View(
    "ingresses",
    ("networking.k8s.io",),
    "Ingress",
    "Ingresses: which hosts and paths lead to which services.",
    (
        text("ingress_class", "spec.ingressClassName", "Its ingress class.", "Class", "<none>"),
        text("hosts", join(_RULES, nonempty(path("host"))), "All hosts."),
        Cell("Hosts", _HOSTS),
        text("address", BALANCERS, "Addresses and host names of its load balancers.", "Address"),
        Cell("Ports", case((exists(items("spec.tls")), "80, 443"), otherwise="80")),
        AGE,
        yes("tls", exists(items("spec.tls")), "Whether it has TLS."),
        text(
            "tls_secrets",
            join(items("spec.tls"), nonempty(path("secretName"))),
            "Secrets of its certificates.",
        ),
        text("default_service", "spec.defaultBackend.service.name", "Where the rest goes."),
    ),
)

_PARAMETERS = path("spec.parameters.kind")
INGRESS_CLASSES = View(
    "ingressclasses",
    ("networking.k8s.io",),
    "IngressClass",
    "Ingress classes: which controller serves an ingress.",
    (
        yes(
            "is_default",
            true(equal(path("metadata.annotations", "ingressclass.kubernetes.io/is-default-class"), "true")),
            "Whether it is for those that name none.",
        ),
        named_default("is_default"),
        text("controller", "spec.controller", "The controller.", "Controller"),
        text(
            "parameters",
            concat(
                _PARAMETERS,
                coalesce(concat(".", path("spec.parameters.apiGroup")), ""),
                "/",
                path("spec.parameters.name"),
            ),
            "What configures it: `kind.group/name`.",
            "Parameters",
            "<none>",
        ),
        AGE,
    ),
    namespaced=False,
)

NETWORK_POLICIES = View(
    "networkpolicies",
    ("networking.k8s.io",),
    "NetworkPolicy",
    "Network policies: what may talk to what.",
    (
        text(
            "pod_selector",
            label_selector("spec.podSelector"),
            "The pods that it is for.",
            "Pod-Selector",
            "<none>",
        ),
        AGE,
        json("pod_selector_json", "spec.podSelector", "The same as it is in the object."),
        text("policy_types", join(items("spec.policyTypes")), "Ingress, Egress or both."),
        number("ingress_rules", count(items("spec.ingress")), "Rules for what comes in."),
        number("egress_rules", count(items("spec.egress")), "Rules for what goes out."),
    ),
)

# Subsets, the ports of each (or one without content), the addresses of each.
_ADDRESSES = (items("subsets"), items("ports", outer=True), items("addresses", up=1))
_PORT_NUMBER = integer("port", up=1)
_HOST_PORT = case(
    (absent(_PORT_NUMBER), path("ip")),
    (
        above(call("find", Type.INTEGER, path("ip"), ":"), 0),
        concat("[", path("ip"), "]:", _PORT_NUMBER),
    ),
    otherwise=concat(path("ip"), ":", _PORT_NUMBER),
)
ENDPOINTS = View(
    "endpoints",
    ("",),
    "Endpoints",
    "Endpoints: the addresses behind a service, in the old form.",
    (
        text("addresses", join(_ADDRESSES, _HOST_PORT), "All addresses with their ports."),
        Cell(
            "Endpoints",
            case((exists(items("subsets")), coalesce(some(_ADDRESSES, _HOST_PORT), "")), otherwise="<none>"),
        ),
        AGE,
        number("ready_addresses", count((items("subsets"), items("addresses"))), "Addresses that are ready."),
        number(
            "not_ready_addresses",
            count((items("subsets"), items("notReadyAddresses"))),
            "Those that are not.",
        ),
    ),
)

_SLICE_PORTS = items("ports")
_SLICE_PORT = coalesce(concat(integer("port")), path("name"), "*")
_SLICE_ADDRESSES = (items("endpoints"), items("addresses"))
ENDPOINT_SLICES = View(
    "endpointslices",
    ("discovery.k8s.io",),
    "EndpointSlice",
    "Endpoint slices: some of the addresses behind a service.",
    (
        text("address_type", "addressType", "IPv4, IPv6 or FQDN.", "AddressType"),
        text("ports", join(_SLICE_PORTS, _SLICE_PORT), "All ports."),
        Cell("Ports", coalesce(nonempty(some(_SLICE_PORTS, _SLICE_PORT)), "<unset>")),
        text("addresses", join(_SLICE_ADDRESSES), "All addresses."),
        Cell("Endpoints", coalesce(nonempty(some(_SLICE_ADDRESSES)), "<unset>")),
        AGE,
        text("service", path("metadata.labels", "kubernetes.io/service-name"), "The service that it is of."),
        number("endpoints", count(items("endpoints")), "How many endpoints it has."),
        number(
            "ready_endpoints",
            count(items("endpoints"), coalesce(boolean("conditions.ready"), True)),
            "Those that are ready.",
        ),
    ),
)

_REF = "spec.parentRef"
_PARENT = concat(
    call(
        "lower",
        Type.TEXT,
        concat(path(f"{_REF}.resource"), coalesce(concat(".", nonempty(path(f"{_REF}.group"))), "")),
    ),
    coalesce(concat("/", nonempty(path(f"{_REF}.namespace"))), ""),
    "/",
    path(f"{_REF}.name"),
)
IP_ADDRESSES = View(
    "ipaddresses",
    ("networking.k8s.io",),
    "IPAddress",
    "Cluster addresses that are taken.",
    (
        text("parent", _PARENT, "Who has it: `services/default/web`.", "ParentRef", "<none>"),
        text("parent_resource", f"{_REF}.resource", "The plural of its kind."),
        text("parent_namespace", f"{_REF}.namespace", "Its namespace."),
        text("parent_name", f"{_REF}.name", "Its name."),
    ),
    namespaced=False,
)

SERVICE_CIDRS = View(
    "servicecidrs",
    ("networking.k8s.io",),
    "ServiceCIDR",
    "Ranges of cluster addresses.",
    (
        text("cidrs", join(items("spec.cidrs")), "The ranges.", "CIDRs"),
        AGE,
        yes("ready", equal(condition("Ready"), "True"), "Whether it is in use."),
    ),
    namespaced=False,
)

NETWORK = (
    SERVICES,
    INGRESSES,
    INGRESS_CLASSES,
    NETWORK_POLICIES,
    ENDPOINTS,
    ENDPOINT_SLICES,
    IP_ADDRESSES,
    SERVICE_CIDRS,
)
