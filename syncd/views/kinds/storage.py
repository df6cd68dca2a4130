"""Volumes, claims on them, and what provides them."""

from __future__ import annotations

from syncd.views.expression import (
    ITEM,
    Expression,
    Key,
    Ref,
    Type,
    above,
    boolean,
    both,
    case,
    coalesce,
    concat,
    count,
    either,
    equal,
    exists,
    filled,
    items,
    join,
    negation,
    path,
    present,
    true,
    units,
)
from syncd.views.view import AGE, Cell, View, named_default, number, text, yes

_DELETING = present(path("metadata.deletionTimestamp"))
_PHASE = case((_DELETING, "Terminating"), otherwise=path("status.phase"))
_CLASS = coalesce(
    path("metadata.annotations", "volume.beta.kubernetes.io/storage-class"), path("spec.storageClassName")
)
_MODES = (
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
)


def _modes(place: str) -> Expression:
    """Access modes by their short names, each once, in kubectl's order."""
    short = case(*((equal(ITEM, long), letters) for long, letters in _MODES))
    order = case(*((equal(ITEM, long), str(rank)) for rank, (long, _) in enumerate(_MODES)))
    before = above(Key(Type.INTEGER, up=1), Key(Type.INTEGER))
    told = exists(items(place, root=True), both(equal(ITEM, path("", up=1)), before))
    return join(items(place), short, where=negation(told), order=order)


PERSISTENT_VOLUMES = View(
    "persistentvolumes",
    ("",),
    "PersistentVolume",
    "Persistent volumes.",
    (
        text("capacity", path("spec.capacity.storage"), "Its size as Kubernetes writes it.", "Capacity", "0"),
        text("access_modes", _modes("spec.accessModes"), "RWO, ROX, RWX, RWOP.", "Access Modes"),
        text("reclaim_policy", "spec.persistentVolumeReclaimPolicy", "Retain, Delete, …", "Reclaim Policy"),
        text("status", _PHASE, "Available, Bound, Released, Failed or Terminating.", "Status"),
        text(
            "claim",
            concat(
                coalesce(path("spec.claimRef.namespace"), case((present(path("spec.claimRef")), ""))),
                "/",
                coalesce(path("spec.claimRef.name"), ""),
            ),
            "Who has it: `namespace/name`.",
            "Claim",
        ),
        text("storage_class", _CLASS, "Its storage class.", "StorageClass"),
        text(
            "volume_attributes_class",
            "spec.volumeAttributesClassName",
            "Its volume attributes class.",
            "VolumeAttributesClass",
            "<unset>",
        ),
        text("status_reason", "status.reason", "Why it is so.", "Reason"),
        AGE,
        text("volume_mode", "spec.volumeMode", "Filesystem or Block.", "VolumeMode", "<unset>"),
        number("capacity_bytes", units(path("spec.capacity.storage")), "Its size in bytes."),
        text("claim_namespace", "spec.claimRef.namespace", "Namespace of its claim."),
        text("claim_name", "spec.claimRef.name", "Name of its claim."),
        text("claim_uid", "spec.claimRef.uid", "Uid of its claim."),
        text("csi_driver", "spec.csi.driver", "The CSI driver that provides it."),
        text("csi_volume_handle", "spec.csi.volumeHandle", "Its name at that driver."),
    ),
    namespaced=False,
)

_HAS_VOLUME = filled(path("spec.volumeName"))
PERSISTENT_VOLUME_CLAIMS = View(
    "persistentvolumeclaims",
    ("",),
    "PersistentVolumeClaim",
    "Claims on persistent volumes.",
    (
        text("status", _PHASE, "Pending, Bound, Lost or Terminating.", "Status"),
        text("volume", "spec.volumeName", "The volume that it has.", "Volume"),
        text(
            "capacity",
            case((_HAS_VOLUME, coalesce(path("status.capacity.storage"), "0"))),
            "The size that it has.",
            "Capacity",
        ),
        text(
            "access_modes",
            case((_HAS_VOLUME, _modes("status.accessModes"))),
            "RWO, ROX, RWX, RWOP.",
            "Access Modes",
        ),
        text("storage_class", _CLASS, "Its storage class.", "StorageClass"),
        text(
            "volume_attributes_class",
            "spec.volumeAttributesClassName",
            "Its volume attributes class.",
            "VolumeAttributesClass",
            "<unset>",
        ),
        AGE,
        text("volume_mode", "spec.volumeMode", "Filesystem or Block.", "VolumeMode", "<unset>"),
        number("capacity_bytes", units(path("status.capacity.storage")), "The size that it has, in bytes."),
        number("requested_bytes", units(path("spec.resources.requests.storage")), "The size asked for."),
    ),
)

_IS_DEFAULT = either(
    *(
        true(equal(path("metadata.annotations", f"{prefix}.kubernetes.io/is-default-class"), "true"))
        for prefix in ("storageclass", "storageclass.beta")
    )
)
STORAGE_CLASSES = View(
    "storageclasses",
    ("storage.k8s.io",),
    "StorageClass",
    "Storage classes: how volumes are provided.",
    (
        yes("is_default", _IS_DEFAULT, "Whether it is for claims that name none."),
        named_default("is_default"),
        text("provisioner", "provisioner", "What provides.", "Provisioner"),
        text(
            "reclaim_policy", coalesce(path("reclaimPolicy"), "Delete"), "Retain or Delete.", "ReclaimPolicy"
        ),
        text(
            "volume_binding_mode",
            coalesce(path("volumeBindingMode"), "Immediate"),
            "Immediate or WaitForFirstConsumer.",
            "VolumeBindingMode",
        ),
        yes(
            "allow_volume_expansion",
            coalesce(boolean("allowVolumeExpansion"), False),
            "Whether its volumes may grow.",
            "AllowVolumeExpansion",
        ),
        AGE,
    ),
    namespaced=False,
)

VOLUME_ATTRIBUTES_CLASSES = View(
    "volumeattributesclasses",
    ("storage.k8s.io",),
    "VolumeAttributesClass",
    "Volume attributes classes: what of a volume may change.",
    (text("driver", "driverName", "The CSI driver that it is for.", "DriverName"), AGE),
    namespaced=False,
)

VOLUME_ATTACHMENTS = View(
    "volumeattachments",
    ("storage.k8s.io",),
    "VolumeAttachment",
    "Volume attachments: which volume is at which node.",
    (
        text("attacher", "spec.attacher", "The driver that attaches.", "Attacher"),
        text("volume", "spec.source.persistentVolumeName", "The volume.", "PV"),
        text("node", "spec.nodeName", "The node.", "Node"),
        yes("attached", coalesce(boolean("status.attached"), False), "Whether it is there.", "Attached"),
        AGE,
        text("attach_error", "status.attachError.message", "Why it could not be attached."),
        text("detach_error", "status.detachError.message", "Why it could not be detached."),
    ),
    namespaced=False,
)

CSI_NODES = View(
    "csinodes",
    ("storage.k8s.io",),
    "CSINode",
    "The CSI drivers of a node.",
    (
        number("drivers", count(items("spec.drivers")), "How many drivers it has.", "Drivers"),
        AGE,
        text("driver_names", join(items("spec.drivers"), path("name")), "Their names."),
    ),
    namespaced=False,
)

_MODE_NAMES = join(items("spec.volumeLifecycleModes"))
CSI_DRIVERS = View(
    "csidrivers",
    ("storage.k8s.io",),
    "CSIDriver",
    "CSI drivers and what they ask for.",
    (
        yes(
            "attach_required",
            coalesce(boolean("spec.attachRequired"), True),
            "Whether it attaches.",
            "AttachRequired",
        ),
        yes(
            "pod_info_on_mount",
            coalesce(boolean("spec.podInfoOnMount"), False),
            "Whether it is told of the pod.",
            "PodInfoOnMount",
        ),
        yes(
            "storage_capacity",
            coalesce(boolean("spec.storageCapacity"), False),
            "Whether it says how much room there is.",
            "StorageCapacity",
        ),
        text(
            "token_audiences",
            join(items("spec.tokenRequests"), path("audience")),
            "Audiences of the tokens that it gets.",
        ),
        Cell(
            "TokenRequests",
            case(
                (present(path("spec.tokenRequests")), coalesce(Ref("token_audiences"), "")),
                otherwise="<unset>",
            ),
        ),
        yes(
            "requires_republish",
            coalesce(boolean("spec.requiresRepublish"), False),
            "Whether it is called again and again.",
            "RequiresRepublish",
        ),
        text("modes", _MODE_NAMES, "Persistent, Ephemeral.", "Modes", "<none>"),
        AGE,
    ),
    namespaced=False,
)

CSI_STORAGE_CAPACITIES = View(
    "csistoragecapacities",
    ("storage.k8s.io",),
    "CSIStorageCapacity",
    "How much room a storage class has somewhere.",
    (
        text("storage_class", "storageClassName", "The storage class.", "StorageClassName"),
        text("capacity", "capacity", "The room as Kubernetes writes it.", "Capacity", "<unset>"),
        number("capacity_bytes", units(path("capacity")), "The room in bytes."),
        number("maximum_volume_bytes", units(path("maximumVolumeSize")), "The largest volume, in bytes."),
    ),
)

STORAGE = (
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    STORAGE_CLASSES,
    VOLUME_ATTRIBUTES_CLASSES,
    VOLUME_ATTACHMENTS,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
)
