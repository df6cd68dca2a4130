"""What is configured and who may do what: maps, secrets, accounts, roles, certificates."""

from __future__ import annotations

from syncd.views.duration import human
from syncd.views.expression import (
    Key,
    Over,
    Ref,
    Type,
    add,
    among,
    boolean,
    case,
    coalesce,
    concat,
    count,
    entries,
    equal,
    exists,
    filled,
    items,
    join,
    last,
    nonempty,
    path,
)
from syncd.views.selector import labels_text
from syncd.views.view import AGE, CREATED, Cell, View, at, number, text, yes

_KEYS = "Names of the entries."
CONFIG_MAPS = View(
    "configmaps",
    ("",),
    "ConfigMap",
    "Config maps.",
    (
        number("data_count", add(count(entries("data")), count(entries("binaryData"))), "Entries.", "Data"),
        AGE,
        text("data_keys", join(entries("data"), Key()), _KEYS),
        text("binary_data_keys", join(entries("binaryData"), Key()), "Names of those that are no text."),
        yes("is_immutable", coalesce(boolean("immutable"), False), "Whether it cannot change."),
    ),
)

SECRETS = View(
    "secrets",
    ("",),
    "Secret",
    "Secrets. Their values are not kept, unless the configuration asks for them.",
    (
        text("type", "type", "What it is for, as kubernetes.io/tls.", "Type"),
        number("data_count", count(entries("data")), "Entries.", "Data"),
        AGE,
        text("data_keys", join(entries("data"), Key()), _KEYS),
        yes("is_immutable", coalesce(boolean("immutable"), False), "Whether it cannot change."),
    ),
)

SERVICE_ACCOUNTS = View(
    "serviceaccounts",
    ("",),
    "ServiceAccount",
    "Service accounts: whom pods run as.",
    (
        AGE,
        number("secret_count", count(items("secrets")), "Secrets that it names."),
        text("image_pull_secrets", join(items("imagePullSecrets"), path("name")), "For its images."),
        yes("automount_token", "automountServiceAccountToken", "Whether pods get its token."),
    ),
)

ROLES = View(
    "roles",
    ("rbac.authorization.k8s.io",),
    "Role",
    "Roles: what may be done in a namespace.",
    (CREATED, number("rule_count", count(items("rules")), "Rules.")),
)

CLUSTER_ROLES = View(
    "clusterroles",
    ("rbac.authorization.k8s.io",),
    "ClusterRole",
    "Cluster roles: what may be done.",
    (
        CREATED,
        number("rule_count", count(items("rules")), "Rules."),
        yes("is_aggregated", exists(items("aggregationRule.clusterRoleSelectors")), "Made of others."),
    ),
    namespaced=False,
)


def _subjects(kind: str) -> Over:
    named = coalesce(path("name"), "")
    if kind == "ServiceAccount":
        named = concat(coalesce(path("namespace"), ""), "/", named)
    return join(items("subjects"), named, ", ", where=equal(path("kind"), kind))


_BINDING = (
    text("role_kind", "roleRef.kind", "Role or ClusterRole."),
    text("role", "roleRef.name", "Name of the role."),
    Cell("Role", concat(coalesce(Ref("role_kind"), ""), "/", coalesce(Ref("role"), ""))),
    AGE,
    text("user_names", _subjects("User"), "Users who have it.", "Users"),
    text("group_names", _subjects("Group"), "Groups that have it.", "Groups"),
    text("service_accounts", _subjects("ServiceAccount"), "`namespace/name` of accounts.", "ServiceAccounts"),
    number("subject_count", count(items("subjects")), "How many have it."),
)
ROLE_BINDINGS = View(
    "rolebindings",
    ("rbac.authorization.k8s.io",),
    "RoleBinding",
    "Role bindings: who has which role in a namespace.",
    _BINDING,
)
CLUSTER_ROLE_BINDINGS = View(
    "clusterrolebindings",
    ("rbac.authorization.k8s.io",),
    "ClusterRoleBinding",
    "Cluster role bindings: who has which role everywhere.",
    _BINDING,
    namespaced=False,
)

_CONDITIONS = items("status.conditions")


def _has(kind: str) -> Over:
    return exists(_CONDITIONS, equal(path("type"), kind))


CERTIFICATE_SIGNING_REQUESTS = View(
    "certificatesigningrequests",
    ("certificates.k8s.io",),
    "CertificateSigningRequest",
    "Requests for certificates.",
    (
        AGE,
        text("signer", nonempty(path("spec.signerName")), "Who shall sign.", "SignerName", "<none>"),
        text("requestor", "spec.username", "Who asks.", "Requestor"),
        number("requested_seconds", "spec.expirationSeconds", "How long it shall be good."),
        Cell("RequestedDuration", coalesce(human(Ref("requested_seconds", Type.INTEGER)), "<none>")),
        text(
            "status",
            concat(
                case((_has("Denied"), "Denied"), (_has("Approved"), "Approved"), otherwise="Pending"),
                case((_has("Failed"), ",Failed"), otherwise=""),
                case((filled(path("status.certificate")), ",Issued"), otherwise=""),
            ),
            "Pending, Approved, Denied; Failed; Issued.",
            "Condition",
        ),
        text("usages", join(items("spec.usages")), "What it is for."),
    ),
    namespaced=False,
)

CLUSTER_TRUST_BUNDLES = View(
    "clustertrustbundles",
    ("certificates.k8s.io",),
    "ClusterTrustBundle",
    "Sets of root certificates.",
    (text("signer", nonempty(path("spec.signerName")), "Whose roots.", "SignerName", "<none>"),),
    namespaced=False,
)

POD_CERTIFICATE_REQUESTS = View(
    "podcertificaterequests",
    ("certificates.k8s.io",),
    "PodCertificateRequest",
    "Requests for the certificates of pods.",
    (
        text("pod", "spec.podName", "The pod.", "PodName"),
        text("service_account", "spec.serviceAccountName", "Its service account.", "ServiceAccountName"),
        text("node", "spec.nodeName", "Its node.", "NodeName"),
        text("signer", "spec.signerName", "Who shall sign.", "SignerName"),
        text(
            "status",
            last(_CONDITIONS, path("type"), among(path("type"), "Issued", "Denied", "Failed")),
            "Issued, Denied, Failed; NULL while it is pending.",
            "State",
            "Pending",
        ),
        text(
            "user_annotations",
            labels_text("spec.unverifiedUserAnnotations"),
            "What the pod adds, unverified.",
            "UnverifiedUserAnnotations",
            "<none>",
        ),
        at("issued_until", "status.notAfter", "When the certificate ends."),
    ),
)

CONFIGURATION = (
    CONFIG_MAPS,
    SECRETS,
    SERVICE_ACCOUNTS,
    ROLES,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    CLUSTER_ROLE_BINDINGS,
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_TRUST_BUNDLES,
    POD_CERTIFICATE_REQUESTS,
)
