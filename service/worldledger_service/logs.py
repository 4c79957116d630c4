"""Where a process logs to: stderr; stdout is for data."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, TextIO

import stamina.instrumentation
import structlog

if TYPE_CHECKING:
    from structlog.typing import Processor


def log_to_stderr(*processors: Processor, to: TextIO | None = None) -> None:
    """Log warnings and what is worse, with tracebacks unless one of the ``processors`` takes them away.

    ``to`` is written to in the place of stderr itself.

    The libraries' own words about an outage (a traceback for each attempt of the pool, a line for each retry) are
    left out: the store tells when it begins and when it ends.
    """
    logging.getLogger("asyncpg.pool").setLevel(logging.ERROR)
    stamina.instrumentation.set_on_retry_hooks([])
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            *processors,
            structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False),
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(to or sys.stderr),
        cache_logger_on_first_use=False,
    )
