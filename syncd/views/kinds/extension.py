"""What extends and guards the API itself: definitions, aggregated services, webhooks, policies, fairness."""

from __future__ import annotations

from syncd.views.expression import (
    ITEM,
    Expression,
    Key,
    Ref,
    among,
    boolean,
    both,
    case,
    coalesce,
    concat,
    condition,
    count,
    entries,
    equal,
    first,
    integer,
    items,
    join,
    last,
    nonempty,
    path,
    present,
    some,
    true,
)
from syncd.views.selector import label_selector
from syncd.views.view import AGE, CREATED, Cell, View, number, text, yes

_VERSIONS = items("spec.versions")
CUSTOM_RESOURCE_DEFINITIONS = View(
    "customresourcedefinitions",
    ("apiextensions.k8s.io",),
    "CustomResourceDefinition",
    "Definitions of custom resources.",
    (
        CREATED,
        text("resource_group", "spec.group", "The API group that it adds to."),
        text("resource_kind", "spec.names.kind", "The kind that it adds."),
        text("resource_plural", "spec.names.plural", "Its plural."),
        text("short_names", join(items("spec.names.shortNames")), "Its short names."),
        text("resource_scope", "spec.scope", "Namespaced or Cluster."),
        text(
            "served_versions",
            join(_VERSIONS, path("name"), where=true(boolean("served"))),
            "Versions served.",
        ),
        text("storage_version", first(_VERSIONS, path("name"), true(boolean("storage"))), "How it is kept."),
        yes("established", equal(condition("Established"), "True"), "Whether it is served."),
    ),
    namespaced=False,
)

_AVAILABLE = condition("Available")
_REASON = nonempty(condition("Available", "reason"))
API_SERVICES = View(
    "apiservices",
    ("apiregistration.k8s.io",),
    "APIService",
    "Versions of API groups, and who serves them.",
    (
        text(
            "service",
            concat(path("spec.service.namespace"), "/", path("spec.service.name")),
            "The service that serves it; NULL: the API server itself.",
            "Service",
            "Local",
        ),
        yes("available", equal(_AVAILABLE, "True"), "Whether it answers."),
        text("unavailable_reason", case((present(_AVAILABLE), _REASON)), "Why it does or does not."),
        Cell(
            "Available",
            coalesce(
                case(
                    (equal(_AVAILABLE, "True"), "True"),
                    (present(_REASON), concat(_AVAILABLE, " (", _REASON, ")")),
                    otherwise=_AVAILABLE,
                ),
                "Unknown",
            ),
        ),
        AGE,
        text("service_group", "spec.group", "The API group."),
        text("service_version", "spec.version", "The version."),
        yes("insecure", coalesce(boolean("spec.insecureSkipTLSVerify"), False), "Served unverified."),
    ),
    namespaced=False,
)


def _webhooks(resource: str, kind: str, what: str) -> View:
    hooks = items("webhooks")
    return View(
        resource,
        ("admissionregistration.k8s.io",),
        kind,
        f"Webhooks that {what} what is written.",
        (
            number("webhooks", count(hooks), "How many webhooks.", "Webhooks"),
            AGE,
            text("webhook_names", join(hooks, path("name")), "Their names."),
            text("failure_policies", join(hooks, path("failurePolicy"), unique=True), "Fail, Ignore."),
            text(
                "services",
                join(
                    hooks,
                    concat(path("clientConfig.service.namespace"), "/", path("clientConfig.service.name")),
                    unique=True,
                ),
                "The services that are asked: `namespace/name`.",
            ),
        ),
        namespaced=False,
    )


MUTATING_WEBHOOKS = _webhooks("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", "change")
VALIDATING_WEBHOOKS = _webhooks("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", "check")


def _policy(resource: str, kind: str, field: str, what: str) -> View:
    param = concat(path("spec.paramKind.apiVersion"), "/", path("spec.paramKind.kind"))
    return View(
        resource,
        ("admissionregistration.k8s.io",),
        kind,
        f"Policies that {what} what is written.",
        (
            number(field, count(items(f"spec.{field}")), "How many.", field.capitalize()),
            text("param_kind", param, "Kind of its parameters.", "ParamKind", "<unset>"),
            AGE,
            text("failure_policy", "spec.failurePolicy", "Fail or Ignore."),
        ),
        namespaced=False,
    )


VALIDATING_POLICIES = _policy(
    "validatingadmissionpolicies", "ValidatingAdmissionPolicy", "validations", "check"
)
MUTATING_POLICIES = _policy("mutatingadmissionpolicies", "MutatingAdmissionPolicy", "mutations", "change")

_SELECTOR = "spec.paramRef.selector"
_WANTED = concat(
    "LabelSelectorRequirement{Key:",
    coalesce(path("key"), ""),
    ",Operator:",
    coalesce(path("operator"), ""),
    ",Values:[",
    coalesce(join(items("values"), separator=" "), ""),
    "],},",
)
# As Go prints the value of the type.
_PRINTED_SELECTOR = concat(
    "&LabelSelector{MatchLabels:map[string]string{",
    coalesce(join(entries(f"{_SELECTOR}.matchLabels"), concat(Key(), ": ", ITEM, ","), ""), ""),
    "},MatchExpressions:[]LabelSelectorRequirement{",
    coalesce(join(items(f"{_SELECTOR}.matchExpressions"), _WANTED, ""), ""),
    "},}",
)
_PARAM_NAME = nonempty(path("spec.paramRef.name"))


def _policy_binding(resource: str, kind: str, what: str) -> View:
    return View(
        resource,
        ("admissionregistration.k8s.io",),
        kind,
        f"Where which policies {what} what is written.",
        (
            text("policy", "spec.policyName", "The policy.", "PolicyName"),
            text("param_name", _PARAM_NAME, "Name of its parameters."),
            text("param_namespace", nonempty(path("spec.paramRef.namespace")), "Their namespace."),
            text("param_selector", label_selector(_SELECTOR), "Which parameters, by label."),
            Cell(
                "ParamRef",
                case(
                    (
                        present(Ref("param_name")),
                        concat(coalesce(Ref("param_namespace"), "*"), "/", Ref("param_name")),
                    ),
                    (present(path(_SELECTOR)), _PRINTED_SELECTOR),
                    otherwise="<unset>",
                ),
            ),
            AGE,
        ),
        namespaced=False,
    )


VALIDATING_POLICY_BINDINGS = _policy_binding(
    "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", "check"
)
MUTATING_POLICY_BINDINGS = _policy_binding(
    "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", "change"
)

FLOW_SCHEMAS = View(
    "flowschemas",
    ("flowcontrol.apiserver.k8s.io",),
    "FlowSchema",
    "Which requests are of which priority level.",
    (
        text("priority_level", "spec.priorityLevelConfiguration.name", "The level.", "PriorityLevel"),
        number(
            "matching_precedence",
            coalesce(integer("spec.matchingPrecedence"), 0),
            "The lowest that fits is taken.",
            "MatchingPrecedence",
        ),
        text(
            "distinguisher_method",
            "spec.distinguisherMethod.type",
            "ByUser or ByNamespace.",
            "DistinguisherMethod",
            "<none>",
        ),
        AGE,
        text("missing_level", condition("Dangling"), "Whether its level is missing.", "MissingPL", "?"),
    ),
    namespaced=False,
)

_LIMITED = "spec.limited"
_QUEUING = f"{_LIMITED}.limitResponse.queuing"


def _within(place: str, field: str) -> Expression:
    """A number of a part of the document: NULL without the part, 0 without the number."""
    return case((present(path(place)), coalesce(integer(f"{place}.{field}"), 0)))


PRIORITY_LEVELS = View(
    "prioritylevelconfigurations",
    ("flowcontrol.apiserver.k8s.io",),
    "PriorityLevelConfiguration",
    "How many requests of a level the API server takes at once.",
    (
        text("type", "spec.type", "Exempt or Limited.", "Type"),
        number(
            "nominal_shares",
            coalesce(
                integer(f"{_LIMITED}.nominalConcurrencyShares"),
                integer(f"{_LIMITED}.assuredConcurrencyShares"),  # v1beta1 and v1beta2
                _within(_LIMITED, "nominalConcurrencyShares"),
            ),
            "Its share of the seats.",
            "NominalConcurrencyShares",
            "<none>",
        ),
        number("queues", _within(_QUEUING, "queues"), "Its queues.", "Queues", "<none>"),
        number("hand_size", _within(_QUEUING, "handSize"), "Queues a flow may use.", "HandSize", "<none>"),
        number(
            "queue_length_limit",
            _within(_QUEUING, "queueLengthLimit"),
            "Requests a queue.",
            "QueueLengthLimit",
            "<none>",
        ),
        AGE,
    ),
    namespaced=False,
)

_STORED = items("status.storageVersions")
STORAGE_VERSIONS = View(
    "storageversions",
    ("internal.apiserver.k8s.io",),
    "StorageVersion",
    "In which version the API servers keep a resource.",
    (
        text(
            "common_version",
            "status.commonEncodingVersion",
            "The version that all agree on.",
            "CommonEncodingVersion",
            "<unset>",
        ),
        text(
            "storage_versions",
            some(_STORED, concat(path("apiServerID"), "=", path("encodingVersion"))),
            "Server by server.",
            "StorageVersions",
            "<unset>",
        ),
        AGE,
    ),
    namespaced=False,
)

STORAGE_VERSION_MIGRATIONS = View(
    "storageversionmigrations",
    ("storagemigration.k8s.io",),
    "StorageVersionMigration",
    "Rewriting of what is kept in an old version.",
    (
        text(
            "migrated_resource",
            concat(
                path("spec.resource.resource"),
                coalesce(concat(".", nonempty(path("spec.resource.group"))), ""),
            ),
            "What is rewritten.",
            "Resource",
        ),
        text(
            "status",
            last(
                items("status.conditions"),
                path("type"),
                both(equal(path("status"), "True"), among(path("type"), "Running", "Failed", "Succeeded")),
            ),
            "Running, Failed, Succeeded.",
            "Status",
            "Unknown",
        ),
    ),
    namespaced=False,
)

EXTENSION = (
    CUSTOM_RESOURCE_DEFINITIONS,
    API_SERVICES,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    VALIDATING_POLICIES,
    VALIDATING_POLICY_BINDINGS,
    MUTATING_POLICIES,
    MUTATING_POLICY_BINDINGS,
    FLOW_SCHEMAS,
    PRIORITY_LEVELS,
    STORAGE_VERSIONS,
    STORAGE_VERSION_MIGRATIONS,
)
