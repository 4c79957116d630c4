"""Rounds as files, and the meta block with the moment in it: the one corner of social_rl that reaches outside.

Source: seeds/social_rl.md, "Validation" and "Usage Example". Files are read and written where the caller says, and the
clock is read where the caller gives no timestamp.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from worldledger.canonical import gate, parse_text
from worldledger.errors import FileRefusedError, InvalidEffectError, InvalidRunError
from worldledger.rulesets.social_rl.fields import SCHEMA_VERSION
from worldledger.rulesets.social_rl.models import ExperimentMeta, FrameworkOption, RoundResult


def create_experiment_meta(
    experiment_id: str,
    prar_run_id: str,
    framework: str,
    framework_option: FrameworkOption,
    model: str,
    *,
    performer_temperature: float = 0.7,
    coach_temperature: float = 0.1,
    social_rl_version: str = SCHEMA_VERSION,
    timestamp: str | None = None,
) -> ExperimentMeta:
    """Make the meta block of a round; the timestamp is now, in UTC, unless it is given."""
    return ExperimentMeta(
        experiment_id=experiment_id,
        prar_run_id=prar_run_id,
        framework=framework,
        framework_option=framework_option,
        model=model,
        performer_temperature=performer_temperature,
        coach_temperature=coach_temperature,
        social_rl_version=social_rl_version,
        timestamp=datetime.now(UTC).isoformat() if timestamp is None else timestamp,
    )


def load_round_result(path: str | os.PathLike[str]) -> RoundResult:
    """Read a round's file and check it.

    Raises FileRefusedError where the file cannot be read, and InvalidRunError (a ValueError) with everything that is
    wrong in it, the path of each; for what is not JSON, or JSON that a log cannot hold, with the place of that alone.
    """
    called = os.fspath(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:  # a ValueError: a NUL in the path
        raise FileRefusedError(f"cannot be read ({getattr(error, 'strerror', None) or error})", file=called) from None
    try:
        value = parse_text(data)
        gate(value)
    except InvalidEffectError as error:
        raise InvalidRunError([{"file": called, "path": error.path, "message": error.reason}]) from None
    return RoundResult.from_value(value, file=called)


def save_round_result(result: RoundResult, path: str | os.PathLike[str]) -> None:
    """Write a round's file, in the place of any that is there.

    Raises InvalidRunError for a round that its file could not be read back as, FileRefusedError where the file cannot
    be written.
    """
    value = result.to_value()
    called = os.fspath(path)
    RoundResult.from_value(value, file=called)
    try:
        data = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        Path(path).write_bytes(data)
    except (OSError, ValueError) as error:
        what = f"cannot be written ({getattr(error, 'strerror', None) or error})"
        raise FileRefusedError(what, file=called) from None
