"""What every Kubernetes serves, for what can be said without asking a cluster. Names only: no versions that
matter, no categories' custom members.
"""

from __future__ import annotations

from syncd.core.resource import Resource

# group: plural singular short names, a resource each; '!' before what is cluster-scoped
_TABLE = """
: configmaps configmap cm, endpoints endpoints ep, events event ev, limitranges limitrange limits
: !namespaces namespace ns, !nodes node no, persistentvolumeclaims persistentvolumeclaim pvc
: !persistentvolumes persistentvolume pv, pods pod po, podtemplates podtemplate
: replicationcontrollers replicationcontroller rc, resourcequotas resourcequota quota, secrets secret
: serviceaccounts serviceaccount sa, services service svc
admissionregistration.k8s.io: !mutatingwebhookconfigurations mutatingwebhookconfiguration
admissionregistration.k8s.io: !validatingadmissionpolicies validatingadmissionpolicy
admissionregistration.k8s.io: !validatingadmissionpolicybindings validatingadmissionpolicybinding
admissionregistration.k8s.io: !validatingwebhookconfigurations validatingwebhookconfiguration
apiextensions.k8s.io: !customresourcedefinitions customresourcedefinition crd crds
apiregistration.k8s.io: !apiservices apiservice
apps: controllerrevisions controllerrevision, daemonsets daemonset ds, deployments deployment deploy
apps: replicasets replicaset rs, statefulsets statefulset sts
autoscaling: horizontalpodautoscalers horizontalpodautoscaler hpa
batch: cronjobs cronjob cj, jobs job
certificates.k8s.io: !certificatesigningrequests certificatesigningrequest csr
coordination.k8s.io: leases lease
discovery.k8s.io: endpointslices endpointslice
events.k8s.io: events event ev
flowcontrol.apiserver.k8s.io: !flowschemas flowschema
flowcontrol.apiserver.k8s.io: !prioritylevelconfigurations prioritylevelconfiguration
networking.k8s.io: !ingressclasses ingressclass, ingresses ingress ing, networkpolicies networkpolicy netpol
node.k8s.io: !runtimeclasses runtimeclass
policy: poddisruptionbudgets poddisruptionbudget pdb
rbac.authorization.k8s.io: !clusterrolebindings clusterrolebinding, !clusterroles clusterrole
rbac.authorization.k8s.io: rolebindings rolebinding, roles role
scheduling.k8s.io: !priorityclasses priorityclass pc
storage.k8s.io: !csidrivers csidriver, !csinodes csinode, csistoragecapacities csistoragecapacity
storage.k8s.io: !storageclasses storageclass sc, !volumeattachments volumeattachment
"""


def _resources() -> tuple[Resource, ...]:
    found: list[Resource] = []
    for line in _TABLE.strip().splitlines():
        group, _, entries = line.partition(":")
        for entry in entries.split(","):
            plural, singular, *short = entry.split()
            namespaced = not plural.startswith("!")
            name = plural.removeprefix("!")
            found.append(
                Resource(group, "v1", name, singular, namespaced, singular=singular, short_names=tuple(short))
            )
    return tuple(found)


BUILT_IN = _resources()
"""Kinds are in lower case; names are looked up without regard to it."""
