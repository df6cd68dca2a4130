"""Queries worth knowing, some for each view: the pages of docs/tables/ show them, and a test runs each of
them on both databases. Plain SQL that both understand.
"""

# ruff: noqa: S608 - names of views, which are ours

from __future__ import annotations

from dataclasses import dataclass

from syncd.core.relation import Relation

WANTED = 3
"""Queries a view."""

# A view's name, then a title after a dash, then its query.
_TEXT = """
pods
- Pods that restart often
  SELECT cluster, namespace, name, node, status, restarts, last_restart_at
  FROM pods WHERE restarts > 5 ORDER BY restarts DESC
- What each node runs, and what that asks for
  SELECT cluster, node, count(*) AS pods, sum(cpu_requests) AS cores, sum(memory_requests) AS bytes
  FROM pods WHERE phase = 'Running' GROUP BY cluster, node ORDER BY pods DESC
- Pods that are not as they should be, with the workload that they belong to
  SELECT p.namespace, p.name, p.status, o.owner_kind, o.owner_name
  FROM pods p LEFT JOIN owners o ON o.cluster = p.cluster AND o.uid = p.uid AND o.is_root
  WHERE p.status NOT IN ('Running', 'Completed', 'Succeeded')

deployments
- Deployments that lack pods
  SELECT cluster, namespace, name, replicas, available_replicas, progressing_reason
  FROM deployments WHERE available_replicas < replicas
- Deployments that are held
  SELECT cluster, namespace, name FROM deployments WHERE paused
- Which version of an image runs where
  SELECT images, count(*) AS deployments FROM deployments GROUP BY images ORDER BY deployments DESC

replicasets
- Old replica sets that could go
  SELECT cluster, namespace, name, owner_name, created_at FROM replicasets
  WHERE replicas = 0 ORDER BY created_at

statefulsets
- Stateful sets that lack pods
  SELECT cluster, namespace, name, ready_replicas, replicas FROM statefulsets WHERE ready_replicas < replicas

daemonsets
- Daemon sets that do not run wherever they should
  SELECT cluster, namespace, name, desired, ready, misscheduled FROM daemonsets WHERE ready < desired

jobs
- Jobs that failed, and why
  SELECT cluster, namespace, name, failed, failure_reason FROM jobs WHERE status = 'Failed'
- The latest run of each cron job
  SELECT cluster, namespace, owner_name AS cronjob, max(started_at) AS started_at
  FROM jobs WHERE owner_kind = 'CronJob' GROUP BY cluster, namespace, owner_name

cronjobs
- Cron jobs that do not run
  SELECT cluster, namespace, name, schedule, last_schedule_at FROM cronjobs WHERE suspended
- When each last succeeded
  SELECT cluster, namespace, name, schedule, last_successful_at FROM cronjobs ORDER BY last_successful_at

poddisruptionbudgets
- Budgets that keep a node from being drained
  SELECT cluster, namespace, name, expected_pods, current_healthy FROM poddisruptionbudgets
  WHERE allowed_disruptions = 0 AND expected_pods > 0

horizontalpodautoscalers
- Autoscalers at their limit
  SELECT cluster, namespace, name, target_kind, target_name, current_replicas, max_replicas, targets
  FROM horizontalpodautoscalers WHERE current_replicas >= max_replicas

services
- Services that select no pod
  SELECT s.cluster, s.namespace, s.name, s.selector FROM services s
  WHERE s.selector IS NOT NULL
    AND s.uid NOT IN (SELECT source_uid FROM relations WHERE relation = 'SELECTS' AND source_kind = 'Service')
- Services that can be reached from outside
  SELECT cluster, namespace, name, type, external_ip, ports FROM services
  WHERE type IN ('LoadBalancer', 'NodePort')

ingresses
- Hosts without TLS
  SELECT cluster, namespace, name, hosts FROM ingresses WHERE NOT tls
- Ingresses of each class
  SELECT cluster, ingress_class, count(*) AS ingresses FROM ingresses GROUP BY cluster, ingress_class

networkpolicies
- Namespaces without any policy
  SELECT n.cluster, n.name FROM namespaces n
  WHERE NOT EXISTS (SELECT 1 FROM networkpolicies p WHERE p.cluster = n.cluster AND p.namespace = n.name)

endpointslices
- Services without an endpoint that is ready
  SELECT cluster, namespace, service, sum(ready_endpoints) AS ready FROM endpointslices
  GROUP BY cluster, namespace, service HAVING sum(ready_endpoints) = 0

persistentvolumes
- Volumes that nobody claims any more
  SELECT cluster, name, status, capacity, claim, reclaim_policy FROM persistentvolumes WHERE status <> 'Bound'
- How much there is of each class
  SELECT cluster, storage_class, count(*) AS volumes, sum(capacity_bytes) AS bytes
  FROM persistentvolumes GROUP BY cluster, storage_class

persistentvolumeclaims
- Claims that no pod mounts
  SELECT c.cluster, c.namespace, c.name, c.capacity FROM persistentvolumeclaims c
  WHERE NOT EXISTS (SELECT 1 FROM volumes v WHERE v.cluster = c.cluster AND v.namespace = c.namespace
    AND v.type = 'persistentVolumeClaim' AND v.source_name = c.name)
- How much each namespace has been given
  SELECT cluster, namespace, storage_class, sum(capacity_bytes) AS bytes
  FROM persistentvolumeclaims GROUP BY cluster, namespace, storage_class ORDER BY bytes DESC

storageclasses
- The classes that are used where none is named
  SELECT cluster, name, provisioner FROM storageclasses WHERE is_default

configmaps
- Config maps that no pod uses
  SELECT cluster, namespace, name FROM configmaps WHERE uid NOT IN (SELECT target_uid FROM relations
    WHERE relation = 'MOUNTS' AND target_kind = 'ConfigMap' AND target_uid IS NOT NULL)

secrets
- Secrets of each type
  SELECT cluster, type, count(*) AS secrets FROM secrets GROUP BY cluster, type
- Which pods mount a secret
  SELECT v.namespace, v.source_name AS secret, v.name AS pod FROM volumes v WHERE v.type = 'secret'

serviceaccounts
- Service accounts whose token every pod gets
  SELECT cluster, namespace, name FROM serviceaccounts WHERE automount_token IS NULL OR automount_token

roles
- Roles that nothing binds
  SELECT r.cluster, r.namespace, r.name FROM roles r WHERE NOT EXISTS (SELECT 1 FROM rolebindings b
    WHERE b.cluster = r.cluster AND b.namespace = r.namespace AND b.role_kind = 'Role' AND b.role = r.name)

clusterroles
- Cluster roles that may do anything
  SELECT DISTINCT cluster, name FROM role_rules
  WHERE kind = 'ClusterRole' AND verb = '*' AND rule_resource = '*' AND rule_api_group = '*'

clusterrolebindings
- Who has the role cluster-admin
  SELECT cluster, name, subject_kind, subject_namespace, subject_name FROM subjects
  WHERE kind = 'ClusterRoleBinding' AND role_name = 'cluster-admin'

nodes
- Nodes that are not ready, or take no pods
  SELECT cluster, name, status, kubelet_version, taints FROM nodes WHERE NOT ready OR unschedulable
- What runs on which version
  SELECT cluster, kubelet_version, os_image, count(*) AS nodes FROM nodes
  GROUP BY cluster, kubelet_version, os_image
- How full each node is
  SELECT n.cluster, n.name, n.cpu_allocatable, p.cores, n.memory_allocatable, p.bytes FROM nodes n
  LEFT JOIN (SELECT cluster, node, sum(cpu_requests) AS cores, sum(memory_requests) AS bytes
    FROM pods WHERE phase = 'Running' GROUP BY cluster, node) p ON p.cluster = n.cluster AND p.node = n.name

namespaces
- Namespaces that do not come to their end
  SELECT cluster, name, deletion_requested_at, deletion_trouble FROM namespaces WHERE status = 'Terminating'
- Namespaces without a standard for the security of pods
  SELECT cluster, name FROM namespaces WHERE pod_security IS NULL

events
- What went wrong most
  SELECT cluster, involved_namespace, involved_kind, reason, count(*) AS events, max(last_observed_at) AS last
  FROM events WHERE type = 'Warning' GROUP BY cluster, involved_namespace, involved_kind, reason
  ORDER BY events DESC
- What happened to a pod
  SELECT e.last_observed_at, e.reason, e.message FROM events e JOIN pods p ON p.uid = e.involved_uid
  WHERE p.namespace = 'shop' AND p.name = 'web-1' ORDER BY e.last_observed_at

resourcequotas
- Quotas that are nearly used up
  SELECT cluster, namespace, name, cpu_requests_used, cpu_requests_hard FROM resourcequotas
  WHERE cpu_requests_used > 0.9 * cpu_requests_hard

leases
- Leases that nobody renews
  SELECT cluster, namespace, name, holder, renewed_at FROM leases ORDER BY renewed_at

customresourcedefinitions
- Types that the cluster has besides its own
  SELECT cluster, resource_group, resource_kind, storage_version, resource_scope
  FROM customresourcedefinitions
- Definitions that are not served
  SELECT cluster, name FROM customresourcedefinitions WHERE NOT established

apiservices
- APIs that do not answer
  SELECT cluster, name, service, unavailable_reason FROM apiservices WHERE NOT available

validatingwebhookconfigurations
- Webhooks that can stop every change when they are away
  SELECT cluster, name, webhook_names, services FROM validatingwebhookconfigurations
  WHERE failure_policies LIKE '%Fail%'

containers
- Containers that ran out of memory
  SELECT cluster, namespace, name, container_name, memory_limits, last_finished_at FROM containers
  WHERE last_reason = 'OOMKilled' OR reason = 'OOMKilled'
- Containers without a limit of memory
  SELECT cluster, namespace, count(*) AS containers FROM containers
  WHERE memory_limits IS NULL GROUP BY cluster, namespace
- Containers that are privileged or run as root
  SELECT cluster, namespace, name, container_name, image FROM containers WHERE privileged OR run_as_user = 0

container_images
- Where images come from
  SELECT registry, count(DISTINCT repository) AS repositories, count(*) AS containers
  FROM container_images GROUP BY registry
- Images without a version of their own
  SELECT DISTINCT cluster, namespace, image FROM container_images WHERE tag = 'latest' AND digest IS NULL
- Every version of a repository that is in use
  SELECT repository, tag, running_digest, count(*) AS containers
  FROM container_images WHERE repository = 'library/nginx' GROUP BY repository, tag, running_digest

container_ports
- Ports of nodes that pods take
  SELECT cluster, namespace, name, container_name, host_port, protocol FROM container_ports
  WHERE host_port IS NOT NULL
- Who declares a port
  SELECT cluster, namespace, name, port_name FROM container_ports WHERE container_port = 8080
- The ports that are declared most
  SELECT container_port, protocol, count(*) AS containers FROM container_ports
  GROUP BY container_port, protocol ORDER BY containers DESC LIMIT 10

volumes
- Pods that mount a path of their node
  SELECT cluster, namespace, name, source_name AS path FROM volumes WHERE type = 'hostPath'
- Which pods use a claim
  SELECT cluster, namespace, source_name AS claim, name AS pod FROM volumes
  WHERE type = 'persistentVolumeClaim'
- What is mounted, by type
  SELECT cluster, type, count(*) AS volumes FROM volumes GROUP BY cluster, type ORDER BY volumes DESC

conditions
- Nodes under pressure
  SELECT cluster, name, type, reason, last_transition_at FROM conditions
  WHERE kind = 'Node' AND type <> 'Ready' AND status = 'True'
- Whatever is not ready, of every kind
  SELECT cluster, kind, namespace, name, reason, message FROM conditions
  WHERE type = 'Ready' AND status <> 'True'
- What changed last
  SELECT cluster, kind, namespace, name, type, status, last_transition_at FROM conditions
  WHERE last_transition_at IS NOT NULL ORDER BY last_transition_at DESC LIMIT 20

service_ports
- Ports of nodes that services take
  SELECT cluster, node_port, namespace, name FROM service_ports WHERE node_port IS NOT NULL ORDER BY node_port
- Services that serve a port
  SELECT cluster, namespace, name, target_port FROM service_ports WHERE port = 443
- Services with several ports
  SELECT cluster, namespace, name, count(*) AS ports FROM service_ports
  GROUP BY cluster, namespace, name HAVING count(*) > 1

ingress_rules
- Where a host leads
  SELECT cluster, namespace, name, path, service_name, service_port FROM ingress_rules
  WHERE host = 'shop.example'
- Rules that lead to a service that is not there
  SELECT r.cluster, r.namespace, r.name, r.host, r.path, r.service_name FROM ingress_rules r
  WHERE r.service_name IS NOT NULL AND NOT EXISTS (SELECT 1 FROM services s
    WHERE s.cluster = r.cluster AND s.namespace = r.namespace AND s.name = r.service_name)
- Hosts that are served without a certificate
  SELECT DISTINCT cluster, namespace, host FROM ingress_rules WHERE host IS NOT NULL AND tls_secret IS NULL

role_rules
- Roles that may read secrets
  SELECT DISTINCT cluster, kind, namespace, name FROM role_rules
  WHERE verb IN ('get', 'list', 'watch', '*') AND rule_resource IN ('secrets', '*')
    AND rule_api_group IN ('', '*')
- Who may read secrets
  SELECT DISTINCT s.cluster, s.namespace, s.subject_kind, s.subject_namespace, s.subject_name, s.role_name
  FROM subjects s JOIN role_rules r ON r.cluster = s.cluster AND r.kind = s.role_kind AND r.name = s.role_name
    AND r.namespace IN ('', s.namespace)
  WHERE r.verb IN ('get', '*') AND r.rule_resource IN ('secrets', '*') AND r.rule_api_group IN ('', '*')
- Roles that may make others greater
  SELECT DISTINCT cluster, kind, namespace, name, verb FROM role_rules
  WHERE verb IN ('escalate', 'bind', 'impersonate')

subjects
- What a service account has been given
  SELECT cluster, kind, namespace, name, role_kind, role_name FROM subjects
  WHERE subject_kind = 'ServiceAccount' AND subject_namespace = 'ci' AND subject_name = 'robot'
- What everybody has been given
  SELECT cluster, kind, namespace, name, role_name FROM subjects
  WHERE subject_name IN ('system:authenticated', 'system:unauthenticated', 'system:anonymous')
- Subjects with the most bindings
  SELECT cluster, subject_kind, subject_name, count(*) AS bindings FROM subjects
  GROUP BY cluster, subject_kind, subject_name ORDER BY bindings DESC LIMIT 10

owners
- The workload of each pod
  SELECT cluster, namespace, name, owner_kind, owner_name FROM owners WHERE kind = 'Pod' AND is_root
- Everything that goes when a deployment goes
  SELECT cluster, kind, namespace, name, depth FROM owners
  WHERE owner_kind = 'Deployment' AND owner_namespace = 'shop' AND owner_name = 'web'
- Pods by the kind of their root
  SELECT cluster, owner_kind, count(*) AS pods FROM owners WHERE kind = 'Pod' AND is_root
  GROUP BY cluster, owner_kind

relations
- What mounts a secret, so what a change of it reaches
  SELECT source_namespace, source_name FROM relations
  WHERE relation = 'MOUNTS' AND target_kind = 'Secret' AND target_namespace = 'shop' AND target_name = 'keys'
- References to what is not there
  SELECT cluster, relation, source_kind, source_namespace, source_name, target_kind, target_name
  FROM relations WHERE target_uid IS NULL AND relation IN ('MOUNTS', 'USES_SERVICE_ACCOUNT', 'ROUTES_TO')
- From an ingress to its pods
  SELECT r.source_namespace, r.source_name AS ingress, r.target_name AS service, s.target_name AS pod
  FROM relations r JOIN relations s ON s.relation = 'SELECTS' AND s.source_uid = r.target_uid
    AND s.cluster = r.cluster
  WHERE r.relation = 'ROUTES_TO'

freshness
- What should not be believed, and why
  SELECT cluster, resource, namespace, verdict, reason, last_error FROM freshness WHERE verdict <> 'fresh'
- A query that gives no row rather than a stale one
  SELECT namespace, name, status FROM pods
  WHERE stream_id IN (SELECT stream_id FROM freshness WHERE verdict = 'fresh')
- How far behind each cluster is
  SELECT cluster, max(lag_seconds) AS lag_seconds, max(verified_age_seconds) AS verified_age_seconds
  FROM freshness GROUP BY cluster

dictionary
- What there is
  SELECT relation, description FROM dictionary WHERE place = 0 ORDER BY relation
- Every view that has a column
  SELECT relation, type FROM dictionary WHERE column_name = 'node'
- Where a column comes from
  SELECT column_name, type, source_path, description FROM dictionary WHERE relation = 'pods' ORDER BY place
"""


@dataclass(frozen=True, slots=True)
class Question:
    """A query and what it answers."""

    title: str
    query: str


def questions(relation: Relation) -> tuple[Question, ...]:
    """Three of a view: its own first, then some that fit every view of objects."""
    own = _SAID.get(relation.name, ())
    if len(own) >= WANTED:
        return own
    name, columns = relation.name, {column.name for column in relation.columns}
    scope = "cluster, namespace" if "namespace" in columns else "cluster"
    fitting = (
        Question(
            "The newest",
            f"SELECT {scope}, name, created_at FROM {name} ORDER BY created_at DESC LIMIT 10",
        ),
        Question(
            "How many there are",
            f"SELECT {scope}, count(*) AS found FROM {name} GROUP BY {scope} ORDER BY found DESC",
        ),
        Question(
            "Those of one application",
            f"SELECT {scope}, name FROM {name} WHERE labels ->> 'app' = 'web'",
        ),
    )
    return (*own, *fitting)[:WANTED]


def _parsed(text: str) -> dict[str, tuple[Question, ...]]:
    found: dict[str, tuple[Question, ...]] = {}
    for block in text.strip().split("\n\n"):
        name, *lines = block.splitlines()
        said: list[Question] = []
        for line in lines:
            if line.startswith("- "):
                said.append(Question(line.removeprefix("- "), ""))
            else:
                last = said.pop()
                said.append(Question(last.title, f"{last.query}\n{line[2:]}".lstrip("\n")))
        found[name] = tuple(said)
    return found


_SAID = _parsed(_TEXT)
NAMED = frozenset(_SAID)
"""The views that have queries of their own."""
