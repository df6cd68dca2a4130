"""The built-in resources, as one table: what a kube-apiserver 1.36 lists in its discovery.

Nothing here acts; `resources()` reads the table once. The order is the server's.
"""

from __future__ import annotations

from syncd.simulator.kind import ALL_VERBS, STATUS_VERBS, Kind, Object, Subresource

# resource singular Kind scope short-names categories subresources ('-': none; '+': status alone)
_TABLE = """
v1
bindings binding Binding ns - - -
componentstatuses componentstatus ComponentStatus cluster cs - -
configmaps configmap ConfigMap ns cm - -
endpoints endpoints Endpoints ns ep - -
events event Event ns ev - -
limitranges limitrange LimitRange ns limits - -
namespaces namespace Namespace cluster ns - finalize,status
nodes node Node cluster no - proxy,status
persistentvolumeclaims persistentvolumeclaim PersistentVolumeClaim ns pvc - +
persistentvolumes persistentvolume PersistentVolume cluster pv - +
pods pod Pod ns po all attach,binding,ephemeralcontainers,eviction,exec,log,portforward,proxy,resize,status
podtemplates podtemplate PodTemplate ns - - -
replicationcontrollers replicationcontroller ReplicationController ns rc all scale,status
resourcequotas resourcequota ResourceQuota ns quota - +
secrets secret Secret ns - - -
serviceaccounts serviceaccount ServiceAccount ns sa - token
services service Service ns svc all proxy,status
apiregistration.k8s.io/v1
apiservices apiservice APIService cluster - api-extensions +
apps/v1
controllerrevisions controllerrevision ControllerRevision ns - - -
daemonsets daemonset DaemonSet ns ds all +
deployments deployment Deployment ns deploy all scale,status
replicasets replicaset ReplicaSet ns rs all scale,status
statefulsets statefulset StatefulSet ns sts all scale,status
events.k8s.io/v1
events event Event ns ev - -
authentication.k8s.io/v1
selfsubjectreviews selfsubjectreview SelfSubjectReview cluster - - -
tokenreviews tokenreview TokenReview cluster - - -
authorization.k8s.io/v1
localsubjectaccessreviews localsubjectaccessreview LocalSubjectAccessReview ns - - -
selfsubjectaccessreviews selfsubjectaccessreview SelfSubjectAccessReview cluster - - -
selfsubjectrulesreviews selfsubjectrulesreview SelfSubjectRulesReview cluster - - -
subjectaccessreviews subjectaccessreview SubjectAccessReview cluster - - -
autoscaling/v2
horizontalpodautoscalers horizontalpodautoscaler HorizontalPodAutoscaler ns hpa all +
autoscaling/v1
horizontalpodautoscalers horizontalpodautoscaler HorizontalPodAutoscaler ns hpa all +
batch/v1
cronjobs cronjob CronJob ns cj all +
jobs job Job ns - all +
certificates.k8s.io/v1
certificatesigningrequests certificatesigningrequest CertificateSigningRequest cluster csr - approval,status
networking.k8s.io/v1
ingressclasses ingressclass IngressClass cluster - - -
ingresses ingress Ingress ns ing - +
ipaddresses ipaddress IPAddress cluster ip - -
networkpolicies networkpolicy NetworkPolicy ns netpol - -
servicecidrs servicecidr ServiceCIDR cluster - - +
policy/v1
poddisruptionbudgets poddisruptionbudget PodDisruptionBudget ns pdb - +
rbac.authorization.k8s.io/v1
clusterrolebindings clusterrolebinding ClusterRoleBinding cluster - - -
clusterroles clusterrole ClusterRole cluster - - -
rolebindings rolebinding RoleBinding ns - - -
roles role Role ns - - -
storage.k8s.io/v1
csidrivers csidriver CSIDriver cluster - - -
csinodes csinode CSINode cluster - - -
csistoragecapacities csistoragecapacity CSIStorageCapacity ns - - -
storageclasses storageclass StorageClass cluster sc - -
volumeattachments volumeattachment VolumeAttachment cluster - - +
volumeattributesclasses volumeattributesclass VolumeAttributesClass cluster vac - -
admissionregistration.k8s.io/v1
mutatingadmissionpolicies mutatingadmissionpolicy MutatingAdmissionPolicy cluster - api-extensions -
mutatingadmissionpolicybindings mutatingadmissionpolicybinding MutatingAdmissionPolicyBinding cluster - api-extensions -
mutatingwebhookconfigurations mutatingwebhookconfiguration MutatingWebhookConfiguration cluster - api-extensions -
validatingadmissionpolicies validatingadmissionpolicy ValidatingAdmissionPolicy cluster - api-extensions +
validatingadmissionpolicybindings validatingadmissionpolicybinding ValidatingAdmissionPolicyBinding cluster - api-extensions -
validatingwebhookconfigurations validatingwebhookconfiguration ValidatingWebhookConfiguration cluster - api-extensions -
apiextensions.k8s.io/v1
customresourcedefinitions customresourcedefinition CustomResourceDefinition cluster crd,crds api-extensions +
scheduling.k8s.io/v1
priorityclasses priorityclass PriorityClass cluster pc - -
coordination.k8s.io/v1
leases lease Lease ns - - -
node.k8s.io/v1
runtimeclasses runtimeclass RuntimeClass cluster - - -
discovery.k8s.io/v1
endpointslices endpointslice EndpointSlice ns - - -
resource.k8s.io/v1
deviceclasses deviceclass DeviceClass cluster - - -
resourceclaims resourceclaim ResourceClaim ns - - +
resourceclaimtemplates resourceclaimtemplate ResourceClaimTemplate ns - - -
resourceslices resourceslice ResourceSlice cluster - - -
flowcontrol.apiserver.k8s.io/v1
flowschemas flowschema FlowSchema cluster - - +
prioritylevelconfigurations prioritylevelconfiguration PriorityLevelConfiguration cluster - - +
"""  # noqa: E501

_CREATE_ONLY = ("authentication.k8s.io", "authorization.k8s.io")
_VERBS = {
    "bindings": ("create",),
    "componentstatuses": ("get", "list"),
    "namespaces": tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
}

# A subresource whose kind is not its parent's: kind, verbs, group and version where not the parent's.
_PROXY_VERBS = ("create", "delete", "get", "patch", "update")
_SUBRESOURCES: dict[str, tuple[str, tuple[str, ...], tuple[str, str] | None]] = {
    "nodes/proxy": ("NodeProxyOptions", _PROXY_VERBS, None),
    "pods/attach": ("PodAttachOptions", ("create", "get"), None),
    "pods/binding": ("Binding", ("create",), None),
    "pods/eviction": ("Eviction", ("create",), ("policy", "v1")),
    "pods/exec": ("PodExecOptions", ("create", "get"), None),
    "pods/log": ("Pod", ("get",), None),
    "pods/portforward": ("PodPortForwardOptions", ("create", "get"), None),
    "pods/proxy": ("PodProxyOptions", _PROXY_VERBS, None),
    "services/proxy": ("ServiceProxyOptions", _PROXY_VERBS, None),
    "serviceaccounts/token": ("TokenRequest", ("create",), ("authentication.k8s.io", "v1")),
    "namespaces/finalize": ("Namespace", ("update",), None),
}
_SCALE = ("Scale", STATUS_VERBS, ("autoscaling", "v1"))

_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS = (
    *(f"involvedObject.{name}" for name in _INVOLVED),
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_FIELDS: dict[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "events": _EVENT_FIELDS,
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
    "jobs.batch": ("status.successful",),
    "replicasets.apps": ("status.replicas",),
    "replicationcontrollers": ("status.replicas",),
    "certificatesigningrequests.certificates.k8s.io": ("spec.signerName",),
    "events.events.k8s.io": (
        *(f"regarding.{name}" for name in _INVOLVED),
        *_EVENT_FIELDS,
        "reportingController",
    ),
}
_COUNTS_GENERATION = ("apps", "batch", "networking.k8s.io", "policy", "autoscaling", "apiextensions.k8s.io")

# events.k8s.io serves the core's events under other names (one storage).
_EVENT_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}


def _as_events_v1(obj: Object) -> Object:
    return {_EVENT_NAMES.get(key, key): value for key, value in obj.items()}


def _as_core_event(obj: Object) -> Object:
    names = {new: old for old, new in _EVENT_NAMES.items()}
    return {names.get(key, key): value for key, value in obj.items()}


def resources() -> list[Kind]:
    """Every built-in, groups in the order in which the server lists them."""
    kinds: list[Kind] = []
    group = version = ""
    for line in _TABLE.split("\n"):
        columns = line.split()
        if len(columns) == 1:
            group, _, version = columns[0].rpartition("/")
        elif columns:
            kinds.append(_kind(group, version, columns))
    return kinds


def _kind(group: str, version: str, columns: list[str]) -> Kind:
    name, singular, kind, scope, short, categories, subresources = columns
    qualified = f"{name}.{group}" if group else name
    parts = "status" if subresources == "+" else subresources
    shared = qualified == "events.events.k8s.io"
    return Kind(
        group=group,
        version=version,
        name=name,
        singular=singular,
        kind=kind,
        namespaced=scope == "ns",
        short_names=_words(short),
        categories=_words(categories),
        verbs=("create",) if group in _CREATE_ONLY else _VERBS.get(qualified, ALL_VERBS),
        subresources=tuple(_subresource(name, kind, part) for part in _words(parts)),
        storage=("", "events") if shared else (group, name),
        fields=_FIELDS.get(qualified, ()),
        labelled_fields=qualified in _FIELDS,
        counts_generation=group in _COUNTS_GENERATION or qualified == "pods",
        convert=_as_events_v1 if shared else None,
        revert=_as_core_event if shared else None,
    )


def _words(column: str) -> tuple[str, ...]:
    return () if column == "-" else tuple(column.split(","))


def _subresource(parent: str, kind: str, name: str) -> Subresource:
    if name == "scale":
        return Subresource(name, *_SCALE)
    special = _SUBRESOURCES.get(f"{parent}/{name}")
    return Subresource(name, *special) if special else Subresource(name, kind)
