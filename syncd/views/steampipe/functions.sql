-- What the views of the schema call. Each function is safe to create again, sees nothing but its arguments,
-- and refers to others with their schema: a reader's search_path decides nothing.

CREATE OR REPLACE FUNCTION kubernetes.inet_of(value text) RETURNS inet
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  -- Tested before the cast: one odd value of loadBalancerIP, which the API hardly checks, must not break a query.
  IF value ~ '^((25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])$'
     OR value ~* '^([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}$'
     OR value ~* '^(?!(.*:){8})(?!.*::.*::)(([0-9a-f]{1,4}:)*[0-9a-f]{1,4})?::(([0-9a-f]{1,4}:)*[0-9a-f]{1,4})?$'
  THEN
    RETURN value::inet;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION kubernetes.cidr_of(value text) RETURNS cidr
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
  host inet := kubernetes.inet_of(split_part(value, '/', 1));
  bits text := split_part(value, '/', 2);
BEGIN
  IF host IS NULL OR bits !~ '^[0-9]{1,3}$' OR bits::int > masklen(host) THEN
    RETURN NULL;
  END IF;
  RETURN network(set_masklen(host, bits::int));
END $$;

-- A custom resource's values, whose schema may have been another when they were written: NULL where one does not fit.
CREATE OR REPLACE FUNCTION kubernetes.custom_bigint(value jsonb) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT CASE WHEN jsonb_typeof(value) = 'number' THEN
    CASE WHEN value::numeric BETWEEN -9223372036854775808 AND 9223372036854775807
          AND value::numeric = trunc(value::numeric) THEN value::numeric::bigint END
  END $$;

CREATE OR REPLACE FUNCTION kubernetes.custom_boolean(value jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT CASE WHEN jsonb_typeof(value) = 'boolean' THEN value::boolean END $$;

CREATE OR REPLACE FUNCTION kubernetes.custom_double(value jsonb) RETURNS double precision
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT CASE WHEN jsonb_typeof(value) = 'number' THEN
    CASE WHEN abs(value::numeric) < 1e308 THEN value::numeric::double precision END
  END $$;

CREATE OR REPLACE FUNCTION kubernetes.custom_moment(value jsonb) RETURNS timestamptz
LANGUAGE sql STABLE STRICT PARALLEL SAFE AS $$
  SELECT CASE WHEN value #>> '{}' ~
    '^(?!0000)\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-][01]\d:[0-5]\d)$'
    OR value #>> '{}' ~
    '^(?!0000)\d{4}-(0[13-9]|1[0-2])-(29|30)T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-][01]\d:[0-5]\d)$'
    OR value #>> '{}' ~
    '^(?!0000)\d{4}-(0[13578]|1[02])-31T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-][01]\d:[0-5]\d)$'
    THEN (value #>> '{}')::timestamptz END $$;

-- A quantity (250m, 1.5Gi, 2e3) in units of 1/scale, rounded up as Kubernetes rounds; NULL where it is none.
CREATE OR REPLACE FUNCTION kubernetes.quantity(value text, scale numeric) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
  part text[] := regexp_match(value,
    '^([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:([numkMGTPE])|([KMGTPE])i|[eE]([+-]?[0-9]{1,2}))?$');
  amount numeric;
BEGIN
  IF part IS NULL THEN
    RETURN NULL;
  END IF;
  amount := part[2]::numeric * scale * CASE
    WHEN part[3] IS NOT NULL THEN ('1e' || (strpos('num kMGTPE', part[3]) - 4) * 3)::numeric
    WHEN part[4] IS NOT NULL THEN power(1024::numeric, strpos('KMGTPE', part[4]))
    WHEN part[5] IS NOT NULL THEN ('1e' || part[5])::numeric
    ELSE 1 END;
  amount := least(ceil(amount), 9223372036854775807);
  RETURN CASE part[1] WHEN '-' THEN -amount ELSE amount END;
END $$;

CREATE OR REPLACE FUNCTION kubernetes.container_resources(containers jsonb, side text) RETURNS jsonb
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
      'containerName', container ->> 'name',
      'containerImage', container ->> 'image',
      'cpu', kubernetes.quantity(container #>> ARRAY['resources', side, 'cpu'], 1000),
      'memory', kubernetes.quantity(container #>> ARRAY['resources', side, 'memory'], 1)
    )) ORDER BY place)
  FROM jsonb_array_elements(CASE WHEN jsonb_typeof(containers) = 'array' THEN containers END)
    WITH ORDINALITY AS each (container, place) $$;

-- A map of labels as a selector: app=web,tier=front, by key.
CREATE OR REPLACE FUNCTION kubernetes.labels_selector(labels jsonb) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT string_agg(key || '=' || value, ',' ORDER BY key COLLATE "C")
  FROM jsonb_each_text(CASE WHEN jsonb_typeof(labels) = 'object' THEN labels END) $$;

-- A LabelSelector as Kubernetes writes it: requirements by key, values of a set sorted.
CREATE OR REPLACE FUNCTION kubernetes.label_selector(selector jsonb) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT string_agg(requirement, ',' ORDER BY key COLLATE "C", place)
  FROM (
    SELECT key, 0::bigint AS place, key || '=' || value AS requirement
    FROM jsonb_each_text(CASE WHEN jsonb_typeof(selector -> 'matchLabels') = 'object'
                              THEN selector -> 'matchLabels' END)
    UNION ALL
    SELECT expression ->> 'key', place, CASE expression ->> 'operator'
        WHEN 'In' THEN (expression ->> 'key') || ' in (' || values || ')'
        WHEN 'NotIn' THEN (expression ->> 'key') || ' notin (' || values || ')'
        WHEN 'Exists' THEN expression ->> 'key'
        WHEN 'DoesNotExist' THEN '!' || (expression ->> 'key') END
    FROM jsonb_array_elements(CASE WHEN jsonb_typeof(selector -> 'matchExpressions') = 'array'
                                   THEN selector -> 'matchExpressions' END)
           WITH ORDINALITY AS each (expression, place),
         LATERAL (
           SELECT coalesce(string_agg(value, ',' ORDER BY value COLLATE "C"), '') AS values
           FROM jsonb_array_elements_text(CASE WHEN jsonb_typeof(expression -> 'values') = 'array'
                                               THEN expression -> 'values' END) AS value
         ) AS allowed
  ) AS requirements $$;

-- --- selector_search: a pod's labels, compared by = with a selector --------------------------------

-- The requirements of a selector (the grammar of `kubectl -l`), one object each: key, operator, values.
CREATE OR REPLACE FUNCTION kubernetes.selector_requirements(selector text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
  part text[];
  consumed int := 0;
  found jsonb := '[]';
  known text;
BEGIN
  IF selector ~ '^\s*$' THEN
    RETURN found;
  END IF;
  FOR part IN SELECT regexp_matches(selector,
    '(\s*(?:(!)\s*)?([^\s!=<>(),]+)(?:\s*(==|=|!=|>|<)\s*([^\s!=<>(),]*)|\s+(in|notin)\s*\(([^()=!<>]*)\))?\s*(?:,|$))',
    'g')
  LOOP
    consumed := consumed + length(part[1]);
    known := CASE
      WHEN part[2] IS NOT NULL AND coalesce(part[4], part[6]) IS NOT NULL THEN NULL
      WHEN part[2] IS NOT NULL THEN 'absent'
      WHEN part[4] IN ('=', '==') THEN 'in'
      WHEN part[4] = '!=' THEN 'notin'
      ELSE coalesce(part[4], part[6], 'exists') END;
    EXIT WHEN known IS NULL;
    found := found || jsonb_build_object('key', part[3], 'operator', known, 'values', CASE
      WHEN part[4] IS NOT NULL THEN jsonb_build_array(part[5])
      WHEN part[6] IS NOT NULL THEN to_jsonb(regexp_split_to_array(regexp_replace(part[7], '\s', '', 'g'), ','))
      ELSE '[]' END);
  END LOOP;
  IF consumed <> length(selector) OR known IS NULL OR selector ~ ',\s*$' THEN
    RAISE EXCEPTION '"%" is no label selector', selector USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Write it as for kubectl -l: app=web,tier in (front,back),!legacy';
  END IF;
  RETURN found;
END $$;

-- What a selector asks by equality, as a map that `labels @>` takes; all of it where the selector is plain.
CREATE OR REPLACE FUNCTION kubernetes.selector_equalities(selector text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  IF selector ~ '^[^\s!=<>(),]+=[^\s!=<>(),]*(,[^\s!=<>(),]+=[^\s!=<>(),]*)*$' THEN
    RETURN jsonb_object(string_to_array(replace(selector, ',', '='), '='));
  END IF;
  RETURN coalesce((
    SELECT jsonb_object_agg(requirement ->> 'key', requirement #>> '{values,0}')
    FROM jsonb_array_elements(kubernetes.selector_requirements(selector)) AS requirement
    WHERE requirement ->> 'operator' = 'in' AND jsonb_array_length(requirement -> 'values') = 1), '{}');
END $$;

-- The requirements of a selector that is not plain, NULL where the equalities say it all.
CREATE OR REPLACE FUNCTION kubernetes.selector_rest(selector text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
  IF selector = '' OR selector ~ '^[^\s!=<>(),]+=[^\s!=<>(),]*(,[^\s!=<>(),]+=[^\s!=<>(),]*)*$'
     AND (SELECT count(*) FROM jsonb_object_keys(kubernetes.selector_equalities(selector)))
         = length(selector) - length(replace(selector, ',', '')) + 1 THEN
    RETURN NULL;  -- a key that is asked for twice is not plain: two values can never both be there
  END IF;
  RETURN kubernetes.selector_requirements(selector);
END $$;

CREATE OR REPLACE FUNCTION kubernetes.satisfies(labels jsonb, requirements jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
  requirement jsonb;
  value text;
BEGIN
  FOR requirement IN SELECT * FROM jsonb_array_elements(requirements) LOOP
    value := labels ->> (requirement ->> 'key');
    IF NOT coalesce(CASE requirement ->> 'operator'
      WHEN 'in' THEN value IS NOT NULL AND requirement -> 'values' ? value
      WHEN 'notin' THEN value IS NULL OR NOT requirement -> 'values' ? value
      WHEN 'exists' THEN value IS NOT NULL
      WHEN 'absent' THEN value IS NULL
      WHEN '>' THEN value ~ '^-?\d{1,18}$' AND requirement #>> '{values,0}' ~ '^-?\d{1,18}$'
        AND value::bigint > (requirement #>> '{values,0}')::bigint
      WHEN '<' THEN value ~ '^-?\d{1,18}$' AND requirement #>> '{values,0}' ~ '^-?\d{1,18}$'
        AND value::bigint < (requirement #>> '{values,0}')::bigint
    END, false) THEN
      RETURN false;
    END IF;
  END LOOP;
  RETURN true;
END $$;

DO $$ BEGIN
  IF to_regtype('kubernetes.label_set') IS NULL THEN
    CREATE TYPE kubernetes.label_set AS (labels jsonb);
  END IF;
END $$;

-- Inlined by the planner: of a selector that is written out only `labels @> '{…}'` is left, which an index serves.
CREATE OR REPLACE FUNCTION kubernetes.selected(pod kubernetes.label_set, selector text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (($1).labels @> kubernetes.selector_equalities($2)
          OR (($1).labels IS NULL AND kubernetes.selector_equalities($2) = '{}'))
     AND (kubernetes.selector_rest($2) IS NULL
          OR kubernetes.satisfies(coalesce(($1).labels, '{}'), kubernetes.selector_rest($2))) $$;

CREATE OR REPLACE FUNCTION kubernetes.selects(selector text, pod kubernetes.label_set) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (($2).labels @> kubernetes.selector_equalities($1)
          OR (($2).labels IS NULL AND kubernetes.selector_equalities($1) = '{}'))
     AND (kubernetes.selector_rest($1) IS NULL
          OR kubernetes.satisfies(coalesce(($2).labels, '{}'), kubernetes.selector_rest($1))) $$;

DO $$ BEGIN
  IF to_regoperator('kubernetes.= (kubernetes.label_set, text)') IS NULL THEN
    CREATE OPERATOR kubernetes.= (LEFTARG = kubernetes.label_set, RIGHTARG = text, FUNCTION = kubernetes.selected,
      COMMUTATOR = OPERATOR(kubernetes.=));
    CREATE OPERATOR kubernetes.= (LEFTARG = text, RIGHTARG = kubernetes.label_set, FUNCTION = kubernetes.selects,
      COMMUTATOR = OPERATOR(kubernetes.=));
  END IF;
END $$;
