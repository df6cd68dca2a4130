"""syncd mirrors Kubernetes clusters into a SQL database.

The rooms and what they may touch are drawn in docs/design.md.
"""

__version__ = "0.1.0"
