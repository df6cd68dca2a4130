"""The catalogue of what lists inside objects hold: a view a list, a column a line. Data alone; what a line
means is in `part.py` and `view.py`.
"""

from __future__ import annotations

from syncd.views.part import Part
from syncd.views.parts.access import ROLE_RULES, SUBJECTS
from syncd.views.parts.condition import CONDITIONS
from syncd.views.parts.container import CONTAINER_IMAGES, CONTAINER_PORTS, CONTAINERS
from syncd.views.parts.network import INGRESS_RULES, SERVICE_PORTS
from syncd.views.parts.volume import VOLUMES

PARTS: tuple[Part, ...] = (
    CONTAINERS,
    CONTAINER_IMAGES,
    CONTAINER_PORTS,
    VOLUMES,
    CONDITIONS,
    SERVICE_PORTS,
    INGRESS_RULES,
    ROLE_RULES,
    SUBJECTS,
)
