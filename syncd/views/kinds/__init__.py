"""The catalogue: every built-in kind's view, a column a line. Data alone; what a line means is in `view.py`.

What kubectl prints follows Kubernetes 1.36 (pkg/printers/internalversion); `<none>`, `<unset>` and the like
are its words for absent.
"""

from __future__ import annotations

from syncd.views.kinds.cluster import NODES
from syncd.views.kinds.network import SERVICES
from syncd.views.kinds.pod import PODS
from syncd.views.kinds.workload import DEPLOYMENTS
from syncd.views.view import View

CATALOGUE: tuple[View, ...] = (PODS, DEPLOYMENTS, SERVICES, NODES)
