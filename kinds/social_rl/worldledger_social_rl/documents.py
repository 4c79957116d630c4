"""The documents of social-RL experiments: rounds, policies, meta data, and reading and writing them as files.

Source: docs/reference/social-rl.md, "Documents".
"""

from __future__ import annotations

import json
import os
from codecs import BOM_UTF8
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from worldledger.canonical import child, gate, parse_text
from worldledger.errors import FileRefusedError, InvalidEffectError
from worldledger_social_rl.rules.errors import InvalidRunError
from worldledger_social_rl.rules.fields import SCHEMA_VERSION, FrameworkOption, refuse
from worldledger_social_rl.rules.models import (
    AgentFeedback,
    ContextFrame,
    CueState,
    ExperimentMeta,
    PolicyAdaptation,
    PolicyState,
    RolePolicy,
    RoundResult,
    SocialRLMessage,
    round_faults,
    validate_round_result,
)
from worldledger_social_rl.rules.words import MARKED

# -- rounds as files, and the meta block with the moment in it: the one corner of social_rl that reaches outside
#
# Source: docs/reference/social-rl.md, "From Python". Files are read and written where the caller says, and the
# clock is read where the caller gives no timestamp.


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
    wrong in it, the path of each; for what is not JSON, or JSON that a log cannot hold, with the place of that alone. A
    byte order mark is refused, as by a strict import.
    """
    called = os.fspath(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:  # a ValueError: a NUL in the path
        raise FileRefusedError(f"cannot be read ({getattr(error, 'strerror', None) or error})", file=called) from None
    if data.startswith(BOM_UTF8):
        raise _refused(called, "$", MARKED)
    try:
        value = parse_text(data)
        gate(value)
    except InvalidEffectError as error:
        raise _refused(called, error.path, error.reason) from None
    return RoundResult.from_value(value, file=called)


def save_round_result(result: RoundResult, path: str | os.PathLike[str]) -> None:
    """Write a round's file, in the place of any that is there; the file appears whole, or the old one stays.

    `load_round_result` gives an equal round. -0.0, which is equal to it, is written as 0.0. Raises InvalidRunError,
    with the path, for a round that its file could not be read back as; FileRefusedError where the file cannot be
    written.
    """
    called = os.fspath(path)
    data = _text_of(result, called)
    try:
        _write_whole(Path(path), data)
    except (OSError, ValueError) as error:  # a ValueError: a NUL in the path
        what = f"cannot be written ({getattr(error, 'strerror', None) or error})"
        raise FileRefusedError(what, file=called) from None


def _text_of(result: RoundResult, called: str) -> bytes:
    """Return the text of a round's file. Raises InvalidRunError for one that could not be read back."""
    value = result.to_value()
    refuse(round_faults(value), file=called)
    try:
        back = RoundResult.from_value(json.loads(gate(value)), file=called).to_value()
    except InvalidEffectError as error:
        raise _refused(called, error.path, error.reason) from None
    if back != value:
        raise _refused(called, _difference(value, back), "this would be read back as another value")
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _difference(value: Any, back: Any, path: str = "$") -> str:
    """Return the path of the first place at which two values differ; they do."""
    if type(value) is dict and type(back) is dict and value.keys() == back.keys():
        name = next(name for name in value if value[name] != back[name])
        return _difference(value[name], back[name], child(path, name))
    if type(value) is list and type(back) is list and len(value) == len(back):
        index = next(index for index in range(len(value)) if value[index] != back[index])
        return _difference(value[index], back[index], child(path, index))
    return path


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file aside, then let it take its place; a device or a pipe is written to. Raises OSError, ValueError."""
    place = Path(os.path.realpath(path))  # a link stays one
    if place.exists() and not place.is_file():
        place.write_bytes(data)
        return
    aside = _opened_aside(place)
    try:
        with aside.open("wb") as file:
            if place.exists():
                aside.chmod(place.stat().st_mode & 0o7777)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(place)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def _opened_aside(place: Path) -> Path:
    """Make an empty file beside a place, that nobody else has."""
    for number in count():
        aside = place.with_name(f".{os.getpid()}-{number}.part")
        try:
            aside.touch(exist_ok=False)
        except FileExistsError:
            continue
        return aside
    raise AssertionError("numbers do not end")


def _refused(called: str, path: str, what: str) -> InvalidRunError:
    return InvalidRunError([{"file": called, "path": path, "message": what}])


__all__ = [
    "SCHEMA_VERSION",
    "AgentFeedback",
    "ContextFrame",
    "CueState",
    "ExperimentMeta",
    "InvalidRunError",
    "PolicyAdaptation",
    "PolicyState",
    "RolePolicy",
    "RoundResult",
    "SocialRLMessage",
    "create_experiment_meta",
    "load_round_result",
    "save_round_result",
    "validate_round_result",
]
