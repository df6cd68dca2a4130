"""Who may do what: rules of roles, subjects of bindings."""

from __future__ import annotations

from syncd.views.expression import ITEM, Key, Type, add, items, join, path
from syncd.views.part import Part, Rows
from syncd.views.view import json, number, text

_GROUP = "rbac.authorization.k8s.io"
# Inside a rule: API group, resource, verb. A rule of URLs has neither groups nor resources.
_RULE = 3

ROLE_RULES = Part(
    "role_rules",
    "Rules of roles and cluster roles: a row a verb on a resource, or on URLs.",
    (
        number("rule", add(Key(Type.INTEGER, up=_RULE), 1), "Which of the object's rules it is, from 1."),
        text("verb", ITEM, "get, list, create, …; * is every one."),
        text(
            "rule_api_group",
            path("", up=2),
            "The API group; '' is the core group, * every one; NULL for URLs.",
        ),
        text(
            "rule_resource",
            path("", up=1),
            "The resource, or resource/subresource; * is every one; NULL for URLs.",
        ),
        text("resource_names", join(items("resourceNames", up=_RULE)), "The names that it is confined to."),
        text("urls", join(items("nonResourceURLs", up=_RULE)), "URLs that are no resources."),
        json("rule_json", path("", kind=Type.JSON, up=_RULE), "The rule as it is in the object."),
    ),
    (
        Rows(
            ((_GROUP, "roles"), (_GROUP, "clusterroles")),
            (
                items("rules"),
                items("apiGroups", outer=True),
                items("resources", up=1, outer=True),
                items("verbs", up=2),
            ),
        ),
    ),
    spanning=True,
)

SUBJECTS = Part(
    "subjects",
    "Whom role bindings and cluster role bindings give a role.",
    (
        text("subject_kind", "kind", "User, Group or ServiceAccount."),
        text("subject_namespace", "namespace", "The namespace of a service account."),
        text("subject_name", "name", "The subject's name."),
        text("role_kind", path("roleRef.kind", root=True), "Role or ClusterRole."),
        text("role_name", path("roleRef.name", root=True), "The role's name."),
    ),
    (Rows(((_GROUP, "rolebindings"), (_GROUP, "clusterrolebindings")), (items("subjects"),)),),
    spanning=True,
)
