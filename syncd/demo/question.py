"""The three questions at the end of the demo, and their SQL."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Question:
    """One query that people want."""

    text: str
    query: str


QUESTIONS = (
    Question(
        "Which teams ask for the most CPU?",
        """\
SELECT labels ->> '$.team' AS team, count(DISTINCT object_key) AS pods,
       sum(rtrim(c.value ->> '$.resources.requests.cpu', 'm')) / 1e3 AS cpu
FROM syncd_objects, json_each(object, '$.spec.containers') AS c
WHERE kind = 'Pod' GROUP BY team ORDER BY cpu DESC LIMIT 4""",
    ),
    Question(
        "What went away in the last minute, and how was it learnt?",
        """\
SELECT cause, count(*) AS objects, substr(max(deleted_at), 12, 8) AS latest,
       min(object_key) AS for_example
FROM syncd_deleted_objects
WHERE deleted_at > datetime('now', '-1 minute') GROUP BY cause""",
    ),
    Question(
        "When was the table wrong, and was it repaired?",
        """\
SELECT finding, object_key, table_version, cluster_version, repaired
FROM syncd_drift ORDER BY drift_id DESC LIMIT 3""",
    ),
)
