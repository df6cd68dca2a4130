"""The catalogue: every built-in kind's view, a column a line. Data alone; what a line means is in `view.py`.

What kubectl prints follows Kubernetes 1.37 (pkg/printers/internalversion); what 1.36 calls otherwise is read
too. `<none>`, `<unset>` and the like are its words for absent.
"""

from __future__ import annotations

from syncd.views.kinds.cluster import CLUSTER
from syncd.views.kinds.configuration import CONFIGURATION
from syncd.views.kinds.extension import EXTENSION
from syncd.views.kinds.network import NETWORK
from syncd.views.kinds.pod import PODS
from syncd.views.kinds.scaling import SCALING
from syncd.views.kinds.scheduling import SCHEDULING
from syncd.views.kinds.storage import STORAGE
from syncd.views.kinds.workload import WORKLOADS
from syncd.views.view import View

CATALOGUE: tuple[View, ...] = (
    PODS,
    *WORKLOADS,
    *SCALING,
    *NETWORK,
    *STORAGE,
    *CONFIGURATION,
    *CLUSTER,
    *SCHEDULING,
    *EXTENSION,
)
"""In the order in which short names are given out."""
