"""How syncd logs: structured events on stderr, as coloured lines or as JSON, one a line.

The loggers of the libraries (uvicorn, alembic, apscheduler, httpx) go the same way from WARNING on. What
looks like a credential is cut out of every event, whoever logged it. Decides nothing about what is logged.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from typing import Any, Literal

import structlog
from structlog.types import EventDict, Processor, WrappedLogger

from syncd.core.secrecy import CUT, without_credentials

_SECRET_KEYS = frozenset({"password", "token", "authorization", "client_key", "secret"})
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def configure(form: Literal["console", "json"], level: str, *, stream: Any = None) -> None:
    """Sets up structlog and the standard library's root logger; may be called again.

    Args:
        level: debug, info, warning or error, for syncd's own events.
        stream: where lines go; stderr, looked up anew for each call, when None.
    """
    out = stream if stream is not None else sys.stderr
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    colours = bool(getattr(out, "isatty", lambda: False)())
    last: Iterable[Processor] = (
        (
            structlog.processors.format_exc_info,
            redacted,
            structlog.processors.JSONRenderer(ensure_ascii=False),
        )
        if form == "json"
        else (
            structlog.processors.format_exc_info,
            redacted,
            structlog.dev.ConsoleRenderer(
                colors=colours, pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
            ),
        )
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    for old in list(root.handlers):
        if isinstance(old.formatter, structlog.stdlib.ProcessorFormatter):
            root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("syncd").setLevel(_LEVELS[level])


def get(name: str) -> structlog.stdlib.BoundLogger:
    """A logger under `syncd`: `get("sync.reflector")`. Bind cluster and resource to it."""
    return structlog.stdlib.get_logger(f"syncd.{name}")


def redacted(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """A processor that cuts what looks like a credential out of an event's values."""
    return {
        key: CUT if isinstance(key, str) and key.lower() in _SECRET_KEYS and value else _cut(value)
        for key, value in event.items()
    }


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, dict):
        return {key: _cut(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_cut(each) for each in value]
    if isinstance(value, BaseException):
        return without_credentials(f"{type(value).__name__}: {value}")
    return value
