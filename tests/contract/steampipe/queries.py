"""Queries in the manner of Steampipe's compliance and insights mods and of the plugin's examples.

Written here, after their shape: a control for every kind that holds pods, dashboards that join by uid and
context, examples a table. A query that cannot be run, or that errs over some object, fails the test.
"""

from __future__ import annotations

from collections.abc import Iterator

WORKLOADS = {
    "kubernetes_cronjob": "job_template -> 'spec' -> 'template' -> 'spec'",
    "kubernetes_daemonset": "template -> 'spec'",
    "kubernetes_deployment": "template -> 'spec'",
    "kubernetes_job": "template -> 'spec'",
    "kubernetes_pod_template": "template -> 'spec'",
    "kubernetes_replicaset": "template -> 'spec'",
    "kubernetes_replication_controller": "template -> 'spec'",
    "kubernetes_stateful_set": "template -> 'spec'",
}

CONTAINER_CONDITIONS = (
    "c -> 'resources' -> 'limits' ->> 'cpu' is null",
    "c -> 'resources' -> 'requests' ->> 'memory' is null",
    "c -> 'securityContext' ->> 'privileged' = 'true'",
    "c -> 'securityContext' ->> 'allowPrivilegeEscalation' = 'false'",
    "c -> 'securityContext' ->> 'readOnlyRootFilesystem' = 'true'",
    "c -> 'securityContext' -> 'seccompProfile' ->> 'type' = 'RuntimeDefault'",
    "c -> 'securityContext' -> 'capabilities' -> 'drop' @> '[\"ALL\"]'",
    (
        "c -> 'securityContext' -> 'capabilities' -> 'add' @> any (array ['[\"NET_ADMIN\"]', "
        "'[\"SYS_ADMIN\"]']::jsonb[])"
    ),
    "c -> 'securityContext' is not null",
    "c -> 'livenessProbe' is not null",
    "c ->> 'image' is null or c ->> 'image' = '' or c ->> 'image' like '%:latest'",
    "(select (regexp_matches(c ->> 'image', '(?:[^\\s/]+/)?([^\\s:]+):?([^\\s]*)'))[2]) in ('latest', '')",
    "c ->> 'imagePullPolicy' <> 'Always'",
    "(c -> 'securityContext' ->> 'runAsUser')::bigint < 10000",
    "(c -> 'command') @> '[\"kube-apiserver\"]' and not (c -> 'command') @> '[\"--anonymous-auth=false\"]'",
    "c ->> 'name' = any (string_to_array('web,agent', ','))",
    (
        "exists (select 1 from jsonb_array_elements(c -> 'env') as e where e -> 'valueFrom' -> "
        "'secretKeyRef' is not null)"
    ),
    "coalesce(split_part(c ->> 'image', ':', 2), '') = ''",
)

POD_CONDITIONS = (
    "{spec} ->> 'hostPID' = 'true' or {spec} ->> 'hostIPC' = 'true'",
    "({spec} ->> 'hostNetwork')::bool",
    "{spec} ->> 'serviceAccountName' = 'default' or {spec} ->> 'serviceAccountName' is null",
    "coalesce(({spec} ->> 'automountServiceAccountToken')::bool, true)",
    "{spec} -> 'securityContext' -> 'runAsNonRoot' = 'true'::jsonb",
    "{spec} -> 'volumes' @> '[{{\"hostPath\": {{}}}}]'",
    "jsonb_array_length({spec} -> 'containers') > 1",
    "jsonb_path_exists({spec}, '$.containers[*].ports[*] ? (@.containerPort <= 1024)')",
)


def workload_queries() -> Iterator[str]:
    """Each control for each kind with pods in it."""
    for table, spec in WORKLOADS.items():
        for condition in CONTAINER_CONDITIONS:
            yield _control(table, condition, f",\n  jsonb_array_elements({spec} -> 'containers') as c")
        for condition in POD_CONDITIONS:
            yield _control(table, condition.format(spec=spec), "")
        yield f"""
            select name, namespace, v ->> 'name' as volume, coalesce(v -> 'configMap' ->> 'name',
            '-') as source
            from {table}, jsonb_array_elements({spec} -> 'volumes') as v order by 1, 2, 3"""
    for condition in CONTAINER_CONDITIONS:
        yield _control("kubernetes_pod", condition, ",\n  jsonb_array_elements(containers) as c")


def _control(table: str, condition: str, lateral: str) -> str:
    return f"""
        select coalesce(uid, concat(path, ':', start_line)) as resource,
          case when {condition} then 'alarm' else 'ok' end as status,
          name || case when {condition} then ' is not as it should be.' else ' is fine.' end as reason,
          tags ->> 'team' as team, path || ':' || start_line || '-' || end_line as place,
          path, source_type, context_name, namespace, _ctx ->> 'connection_name' as connection
        from {table}{lateral}"""


def inventory_queries(tables: dict[str, set[str]]) -> Iterator[str]:
    """What every dashboard asks of every table: inputs, counts, ages, labels; by the columns that it has."""
    for table, columns in tables.items():
        yield f"select count(*) as value, '{table}' as label from {table}"
        yield f"select * from {table} order by {'name' if 'name' in columns else '1'} limit 100"
        yield f"select count(each), count(each.*), jsonb_agg(each) from {table} as each"
        yield f"select * from {table} union select distinct * from {table}"
        if "title" in columns and "uid" in columns:
            yield f"""
                select title as label, uid as value, json_build_object('context_name', context_name,
                  'age', now()::date - creation_timestamp::date) as tags
                from {table} order by title"""
            yield f"""
                select context_name, case when now() - creation_timestamp <= interval '1 days' then '<1 day'
                  when creation_timestamp > now() - interval '30 days'
                  then '<30 days' else 'older' end as age,
                  count(*), to_char(date_trunc('month', max(creation_timestamp)), 'YYYY-MM') as month
                from {table} group by 1, 2 order by 1, 2"""
            yield f"""
                with data as (select labels::json as label, annotations::json as note from {table})
                select key as "Key", value as "Value" from data, json_each_text(label) order by key"""
            yield (
                f"select uid, k from {table}, jsonb_object_keys(annotations) as k where k not like "
                f"'%last-applied%'"
            )
            yield (
                f"select name, o ->> 'kind' as owner from {table}, jsonb_array_elements(owner_references) "
                f"as o"
            )
            yield (
                f"select name, age(current_timestamp, creation_timestamp) from {table} where finalizers "
                f"is not null"
            )
            yield f"""
                select name, generation, resource_version, deletion_timestamp, source_type from {table}
                where path is null and start_line is null and source_type = 'deployed'
                and deletion_timestamp is null"""
        if {"tags", "name", "context_name"} <= columns:
            yield f"""
                select t.name, n.name from {table} as t left join kubernetes_namespace as n
                  on n.context_name = t.context_name and n.uid = t.uid
                  where t.tags ? 'team' or t.tags = '{{}}'"""


EXAMPLES = (
    # pods
    """select namespace, name, phase, age(current_timestamp, creation_timestamp), pod_ip, node_name,
         jsonb_array_length(containers) as containers, jsonb_array_length(init_containers) as inits
       from kubernetes_pod order by namespace, name""",
    """select namespace, name, phase, count(s) filter (where s -> 'state' -> 'running' is not null)
         as running,
         jsonb_array_length(containers), coalesce(sum((s ->> 'restartCount')::int), 0) as restarts, pod_ip
       from kubernetes_pod left join jsonb_array_elements(container_statuses) as s on true
       group by namespace, name, phase, containers, pod_ip order by 1, 2""",
    "select name from kubernetes_pod where owner_references is null",
    "select name from kubernetes_pod where host_pid or host_ipc or host_network",
    (
        "select host(pod_ip), family(host_ip), pod_ip << '10.0.0.0/8'::inet from kubernetes_pod "
        "where pod_ip is not null"
    ),
    """select p.name, cs ->> 'name', state, (cs ->> 'restartCount')::int from kubernetes_pod as p,
         jsonb_array_elements(container_statuses) as cs, jsonb_object_keys(cs -> 'state') as state""",
    """select r ->> 'containerName' as container, (r ->> 'cpu')::bigint as millicores,
         (r -> 'memory')::numeric
       from kubernetes_pod, jsonb_array_elements(containers_resources_limits_std) as r where r ? 'cpu'""",
    """select name, replace(c -> 'resources' -> 'limits' ->> 'memory', 'Mi', '') from kubernetes_pod,
         jsonb_array_elements(coalesce(init_containers, '[]'::jsonb) || containers) as c
         order by c ->> 'name'""",
    """select s.name as secret, p.name as pod from kubernetes_secret as s, kubernetes_pod as p,
         jsonb_array_elements(p.containers) as c, jsonb_array_elements(c -> 'env') as e
       where e -> 'valueFrom' -> 'secretKeyRef' ->> 'name' = s.name and s.namespace = p.namespace""",
    """select p.uid as from_id, n.uid as to_id from kubernetes_pod as p, kubernetes_node as n
       where n.name = p.node_name and n.context_name = p.context_name""",
    """select p.name, s.name from kubernetes_service as s, kubernetes_pod as p
       where p.selector_search = s.selector_query and s.uid = 'svc-web'""",
    """select d.name, count(p.uid) from kubernetes_deployment as d
         left join kubernetes_pod as p on d.selector_query = p.selector_search and p.namespace = d.namespace
       group by d.name""",
    """select name, selector_search from kubernetes_pod where selector_search = 'app in (web, agent)'""",
    """with recursive up as (
         select uid, owner_references from kubernetes_pod where name like 'web-%'
         union select r.uid, r.owner_references from kubernetes_replicaset as r
           join up on up.owner_references @> jsonb_build_array(jsonb_build_object('uid', r.uid)))
       select * from up""",
    (
        "select start_time::date, termination_grace_period_seconds + 1, "
        "active_deadline_seconds::int from kubernetes_pod"
    ),
    (
        "select name, t ->> 'key' from kubernetes_pod, jsonb_array_elements(tolerations) as t "
        "where t ->> 'effect' = 'NoExecute'"
    ),
    """select name, node_name from kubernetes_pod where selector_search in
         (select selector_query from kubernetes_service where uid = any (array['svc-web'])) order by name""",
    """select p.uid as from_id, s.uid as to_id from kubernetes_service as s
         join kubernetes_pod as p on p.selector_search = s.selector_query
         join unnest(array['pod-web/prod']) as u
           on s.context_name = split_part(u, '/', 2) and p.uid = split_part(u, '/', 1)""",
    """with flags as (
         select c ->> 'name' as container, trim('"' from split_part(flag::text, '=', 2)) as value,
           p.name as pod from kubernetes_pod as p, jsonb_array_elements(containers) as c,
           jsonb_array_elements(coalesce(c -> 'args', c -> 'command')) as flag where flag::text like '%=%')
       select p.uid, f.value, case when (c -> 'command') is null then 'skip' when f.value = '0' then 'ok' end
       from kubernetes_pod as p, jsonb_array_elements(containers) as c
         left join flags as f on f.container = c ->> 'name' where f.pod is null or f.pod = p.name""",
    """select v ->> 'name' || p.name as id, pvc.uid
       from kubernetes_pod as p, jsonb_array_elements(volumes) as v
         left join kubernetes_persistent_volume_claim as pvc
           on v -> 'persistentVolumeClaim' ->> 'claimName' = pvc.name
       where pvc.uid is null or pvc.context_name = p.context_name""",
    # workloads
    """select name, strategy ->> 'type', strategy -> 'rollingUpdate' ->> 'maxSurge',
         replicas - available_replicas
       from kubernetes_deployment where not paused and replicas < 3""",
    """select c ->> 'type', c ->> 'status' from kubernetes_deployment, jsonb_array_elements(conditions) as c
       order by c ->> 'lastTransitionTime' desc""",
    (
        "select name, schedule, concurrency_policy, suspend, concurrency_policy = '\"Forbid\"' "
        "from kubernetes_cronjob"
    ),
    """select j.name, c.name from kubernetes_job as j, jsonb_array_elements(j.owner_references) as o,
         kubernetes_cronjob as c where o ->> 'uid' = c.uid""",
    (
        "select name, completion_time - start_time as took, succeeded, failed, active from "
        "kubernetes_job where backoff_limit > 1"
    ),
    (
        "select a ->> 'name' from kubernetes_cronjob, jsonb_array_elements(active) as a where "
        "last_schedule_time < now()"
    ),
    """select name, selector -> 'matchLabels' ->> 'app', desired_number_scheduled - number_ready
       from kubernetes_daemonset where number_unavailable > 0""",
    (
        "select name, service_name, update_strategy ->> 'type', pod_management_policy from "
        "kubernetes_stateful_set"
    ),
    """select name, scale_target_ref ->> 'name', m -> 'resource' -> 'target' ->> 'averageUtilization',
         max_replicas
       from kubernetes_horizontal_pod_autoscaler, jsonb_array_elements(metrics) as m
       where current_replicas >= min_replicas""",
    (
        "select name, min_available, max_unavailable, replace(max_unavailable, '%', '')::int "
        "from kubernetes_pod_disruption_budget"
    ),
    # nodes and namespaces
    """select name, lower(c ->> 'status')::bool, (c ->> 'lastHeartbeatTime')::timestamp
       from kubernetes_node, jsonb_array_elements(conditions) as c where c ->> 'type' = 'Ready'""",
    """select name, jsonb_path_query_array(addresses, '$[*] ? (@.type == "InternalIP").address')
       from kubernetes_node""",
    """select name, capacity_cpu_std / 1000.0 as cores, pg_size_pretty(allocatable_memory_std), pod_cidr,
         capacity_cpu::int, node_info ->> 'kubeletVersion' from kubernetes_node""",
    """select n.name, sum((r ->> 'cpu')::bigint) * 100 / max(n.allocatable_cpu_std) as percent
         from kubernetes_node as n
         join kubernetes_pod as p on p.node_name = n.name,
         jsonb_array_elements(p.containers_resources_requests_std) as r group by n.name""",
    "select name, t ->> 'effect' from kubernetes_node, jsonb_array_elements(taints) as t where unschedulable",
    (
        "select i -> 'names' ->> 0, (i -> 'sizeBytes')::bigint from kubernetes_node, "
        "jsonb_array_elements(images) as i"
    ),
    (
        "select name, c ->> 'reason' from kubernetes_namespace, jsonb_array_elements(conditions) "
        "as c where phase = 'Terminating'"
    ),
    """select n.name as resource, case when (select count(*) from kubernetes_network_policy as p
         where p.namespace = n.name and p.pod_selector = '{}') = 0 then 'alarm' else 'ok' end
         from kubernetes_namespace as n""",
    # access
    """select name, r ->> 'verbs' from kubernetes_cluster_role, jsonb_array_elements(rules) as r
       where r -> 'verbs' ? '*' and r -> 'resources' ? '*' and name not like 'system:%'""",
    """select verb, resource from kubernetes_role, jsonb_array_elements(rules) as r,
         jsonb_array_elements_text(r -> 'verbs') as verb,
         jsonb_array_elements_text(r -> 'resources') as resource""",
    """select b.name, s ->> 'name', r.rules from kubernetes_role_binding as b,
         jsonb_array_elements(subjects) as s,
         kubernetes_role as r where r.name = b.role_name and r.namespace = b.namespace
         and s ->> 'kind' = 'ServiceAccount'""",
    """select s ->> 'kind' from kubernetes_cluster_role_binding, jsonb_array_elements(subjects) as s
       where role_name = 'cluster-admin' and role_kind = 'ClusterRole' and role_api_group <> ''""",
    """select name, case when automount_service_account_token then 'alarm' else 'ok' end,
         jsonb_array_length(secrets)
       from kubernetes_service_account where automount_service_account_token is null or name = 'default'""",
    """select (select count(*) from kubernetes_role_binding as b, jsonb_array_elements(b.subjects) as s
         where s ->> 'name' = a.name and s ->> 'namespace' = a.namespace)
         from kubernetes_service_account as a""",
    """select uid as resource, case when rule ->> 'verbs' like '%*%' then 'alarm' else 'ok' end as status,
         name as role_name, context_name from kubernetes_cluster_role, jsonb_array_elements(rules) rule
       where name not like '%system%' group by uid, status, role_name, context_name""",
    """select s ->> 'name' as id, jsonb_build_object('Context Name', r.context_name) as properties
       from kubernetes_role as r, kubernetes_role_binding as b, jsonb_array_elements(subjects) as s
       where b.role_name = r.name and b.context_name = r.context_name and r.uid = any (array['role-reader'])
       union select s ->> 'name', jsonb_build_object('Context Name', r.context_name)
       from kubernetes_cluster_role as r, kubernetes_cluster_role_binding as b,
         jsonb_array_elements(subjects) as s
       where b.role_name = r.name and s ->> 'kind' in ('User', 'Group')""",
    # network
    """select name, p ->> 'port', p ->> 'targetPort', load_balancer_ingress -> 0 ->> 'ip', load_balancer_ip,
         external_ips, cluster_ip::inet from kubernetes_service, jsonb_array_elements(ports) as p
         where cluster_ip <> ''""",
    """select name, r ->> 'host', p ->> 'path', p -> 'backend' -> 'service' ->> 'name'
         from kubernetes_ingress,
         jsonb_array_elements(rules) as r, jsonb_array_elements(r -> 'http' -> 'paths') as p
         where tls is not null""",
    "select name, load_balancer -> 0 ->> 'ip' from kubernetes_ingress where annotations ->> 'x' is null",
    """select name, policy_types, case when policy_types @> '["Egress"]' and egress is null then 'deny' end
       from kubernetes_network_policy where ingress is null or ingress @> '[{}]'""",
    """select e.name, a ->> 'ip', p ->> 'port' from kubernetes_endpoint as e,
         jsonb_array_elements(subsets) as s,
         jsonb_array_elements(s -> 'addresses') as a, jsonb_array_elements(s -> 'ports') as p""",
    """select address, e -> 'conditions' ->> 'ready' from kubernetes_endpoint_slice,
         jsonb_array_elements(endpoints) as e,
         jsonb_array_elements_text(e -> 'addresses') as address where address_type = 'IPv4'""",
    # configuration, storage, quotas
    "select name, key, value from kubernetes_config_map, jsonb_each_text(data) where immutable",
    "select name, key, value from kubernetes_secret, jsonb_each_text(data) where type = 'Opaque'",
    """select pv.name, pvc.name, pv.claim_ref ->> 'name', persistent_volume_source -> 'csi' ->> 'driver'
       from kubernetes_persistent_volume as pv left join kubernetes_persistent_volume_claim as pvc
         on pvc.volume_name = pv.name left join kubernetes_storage_class
         as sc on sc.name = pvc.storage_class""",
    (
        "select name, provisioner, namespace from kubernetes_storage_class where "
        "allow_volume_expansion and reclaim_policy = 'Delete'"
    ),
    (
        "select name, capacity ->> 'storage', access_modes ? 'ReadWriteOnce' from "
        "kubernetes_persistent_volume_claim"
    ),
    """select name, l -> 'default' ->> 'cpu' from kubernetes_limit_range,
         jsonb_array_elements(spec_limits) as l
       where l ->> 'type' = 'Container'""",
    "select name, key, value, status_used ->> key from kubernetes_resource_quota, jsonb_each_text(spec_hard)",
    # events, definitions, what is empty
    """select concat(involved_object ->> 'kind', '/', involved_object ->> 'name'), last_timestamp,
         count, reporting_component
       from kubernetes_event where type = 'Warning' and last_timestamp > now() - interval '100 years'""",
    """select name, v ->> 'name' from kubernetes_custom_resource_definition,
         jsonb_array_elements(spec -> 'versions') as v
       where v ->> 'served' = 'true' and status -> 'acceptedNames' ->> 'kind' = 'Certificate'""",
    (
        "select name, uid from kubernetes_certificate where not is_ca and now() > "
        "to_timestamp(not_after, 'YYYY-MM-DD')"
    ),
    (
        "select name, privileged, volumes from kubernetes_pod_security_policy where not "
        "allow_privilege_escalation"
    ),
    "select name, chart_name, status, last_deployed from helm_release where namespace = 'shop'",
    "select path, key_path, value, keys from helm_value where path = 'values.yaml' order by start_line",
    "select name, version, dependencies from helm_chart where deprecated is not true",
    """select t.path, t.raw, r.rendered from helm_template as t join helm_template_rendered as r
         on t.chart_name = r.chart_name where r.source_type like 'helm%'""",
    # across clusters
    """select context_name, count(*) from (select context_name from kubernetes_pod union all
         select context_name from kubernetes_deployment) as all_of_it group by rollup (context_name)""",
)
