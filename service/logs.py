"""Where a process that serves logs to: stderr, with tracebacks; stdout is for data."""

from __future__ import annotations

import logging
import sys

import stamina.instrumentation
import structlog


def log_to_stderr() -> None:
    """Log warnings and what is worse.

    The libraries' own words about an outage (a traceback for each attempt of the pool, a line for each retry) are
    left out: the store tells when it begins and when it ends.
    """
    logging.getLogger("asyncpg.pool").setLevel(logging.ERROR)
    stamina.instrumentation.set_on_retry_hooks([])
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False),
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
