"""What pods mount."""

from __future__ import annotations

from syncd.views.expression import (
    Key,
    Listing,
    Type,
    boolean,
    case,
    coalesce,
    concat,
    entries,
    equal,
    first,
    items,
    join,
    negation,
    path,
    present,
    units,
)
from syncd.views.part import Part, Rows
from syncd.views.view import number, text, yes

# A volume is its name and one more key, which says what it is.
_TYPE = first(entries(""), Key(), negation(equal(Key(), "name")))
_CLAIM = case((present(path("ephemeral")), concat(path("metadata.name", root=True), "-", path("name"))))
_PROJECTED = Listing(path("projected.sources", kind=Type.JSON))
_PART = coalesce(
    concat("configMap/", path("configMap.name")),
    concat("secret/", path("secret.name")),
    case((present(path("serviceAccountToken")), "serviceAccountToken")),
    case((present(path("downwardAPI")), "downwardAPI")),
    concat(
        "clusterTrustBundle/",
        coalesce(path("clusterTrustBundle.name"), path("clusterTrustBundle.signerName")),
    ),
    case((present(path("podCertificate")), "podCertificate")),
)

VOLUMES = Part(
    "volumes",
    "Volumes of pods, and what is behind them.",
    (
        text("volume_name", "name", "The volume's name in the pod."),
        text(
            "type", _TYPE, "As in the API: configMap, secret, persistentVolumeClaim, emptyDir, projected, …"
        ),
        text(
            "source_name",
            coalesce(
                path("configMap.name"),
                path("secret.secretName"),
                path("persistentVolumeClaim.claimName"),
                _CLAIM,
                path("csi.driver"),
                path("hostPath.path"),
                path("image.reference"),
                concat(path("nfs.server"), ":", path("nfs.path")),
            ),
            "Its config map, secret or claim by name; else the driver, the path, the image or the server.",
        ),
        text(
            "projected_sources",
            join(_PROJECTED, _PART),
            "`configMap/ca,serviceAccountToken`, of a projected one.",
        ),
        yes(
            "read_only",
            coalesce(
                boolean("persistentVolumeClaim.readOnly"),
                boolean("csi.readOnly"),
                boolean("nfs.readOnly"),
                False,
            ),
            "Whether nobody can write to it through this pod.",
        ),
        yes(
            "may_be_missing",
            coalesce(boolean("configMap.optional"), boolean("secret.optional"), False),
            "Whether the pod starts without its source.",
        ),
        text("medium", "emptyDir.medium", "Memory, of an emptyDir that is kept there."),
        number("size_limit", units(path("emptyDir.sizeLimit")), "Bound of an emptyDir, in bytes."),
        text("host_path_type", "hostPath.type", "What a host path must be."),
    ),
    (Rows((("", "pods"),), (items("spec.volumes"),)),),
)
