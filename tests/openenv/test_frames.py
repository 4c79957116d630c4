"""Frames that no client should send: each gets its code, and the socket stays usable."""

from __future__ import annotations

from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from worldledger_service.api.ws.messages import MAX_BYTES

from tests.api.helpers import Served

from .helpers import Socket, error, message, socket_of

_DEEP = "[" * 10_000 + "]" * 10_000

#: What is sent, and the code that it gets.
FRAMES: list[tuple[str | bytes, str]] = [
    ("", "INVALID_JSON"),
    ("e2e4", "INVALID_JSON"),
    ('{"type": "state"', "INVALID_JSON"),
    ('{"type": "state"} {}', "INVALID_JSON"),
    (b'{"type": "state"}', "INVALID_JSON"),
    (b"\xff\xfe", "INVALID_JSON"),
    ('{"type": "reset", "data": {"seed": NaN}}', "INVALID_JSON"),
    ('{"type": "step", "data": {"move": -Infinity}}', "INVALID_JSON"),
    ('{"type": "state", "type": "close"}', "INVALID_JSON"),
    ('{"type": "step", "data": {"move": "e2e4", "move": "d2d4"}}', "INVALID_JSON"),
    (_DEEP, "INVALID_JSON"),
    (f'{{"type": "step", "data": {{"move": "e2e4", "metadata": {{"a": {_DEEP}}}}}}}', "INVALID_JSON"),
    ("[]", "VALIDATION_ERROR"),
    ("null", "VALIDATION_ERROR"),
    ('"state"', "VALIDATION_ERROR"),
    ("17", "VALIDATION_ERROR"),
    ("{}", "UNKNOWN_TYPE"),
    ('{"data": {}}', "UNKNOWN_TYPE"),
    ('{"type": null}', "UNKNOWN_TYPE"),
    ('{"type": ["state"]}', "UNKNOWN_TYPE"),
    ('{"type": 1}', "UNKNOWN_TYPE"),
    ('{"type": "STATE"}', "UNKNOWN_TYPE"),
    ('{"type": "mcp", "data": {}}', "UNKNOWN_TYPE"),
    ('{"type": "\\ud800"}', "UNKNOWN_TYPE"),
    ('{"type": "state", "data": {}}', "VALIDATION_ERROR"),
    ('{"type": "close", "now": true}', "VALIDATION_ERROR"),
    ('{"type": "step"}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": null}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": "e2e4"}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {}}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"move": null}}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"move": 5}}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"move": ["e2e4"]}}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"action": {"move": "e2e4"}}}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"move": "e2e4", "player": "white"}}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"move": "e2e4", "metadata": null}}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"move": "e2e4", "metadata": {"request_id": 7}}}', "VALIDATION_ERROR"),
    ('{"type": "step", "data": {"move": "e2e4", "metadata": {"thinking_time": 1e999}}}', "VALIDATION_ERROR"),
    (message("step", {"move": "x" * 60_000}), "VALIDATION_ERROR"),
    ('{"type": "step", "data": null}', "VALIDATION_ERROR"),
    ('{"type": "reset", "data": []}', "VALIDATION_ERROR"),
    ('{"type": "reset", "seed": 1}', "VALIDATION_ERROR"),
    ('{"type": "reset", "data": {"episode_id": "nobody\'s", "resume": true}}', "VALIDATION_ERROR"),
    ('{"type": "reset", "data": {"episode_id": "nobody", "resume": true}}', "EXECUTION_ERROR"),
]

#: What a reset says, and what the refusal names.
RESETS: list[tuple[dict[str, Any], str]] = [
    ({"sede": 1}, "$.sede"),
    ({"seed": "1"}, "$.seed"),
    ({"seed": 1.0}, "$.seed"),
    ({"seed": True}, "$.seed"),
    ({"seed": 2**53}, "$.seed"),
    ({"episode_id": "a b"}, "$.episode_id"),
    ({"episode_id": ""}, "$.episode_id"),
    ({"episode_id": 7}, "$.episode_id"),
    ({"fen": "8/8/8/8/8/8/8/8 w - - 0 1"}, "$.fen"),
    ({"fen": "4k3/8/8/8/8/8/8/4R1K1 w - - 0 1"}, "$.fen"),
    ({"fen": "x" * 50_000}, "$.fen"),
    ({"fen": 5}, "$.fen"),
    ({"agent_color": "red"}, "$.agent_color"),
    ({"agent_color": 0}, "$.agent_color"),
    ({"agent_id": ""}, "$.agent_id"),
    ({"agent_id": "openenv-random"}, "$.agent_id"),
    ({"opponent": "nobody"}, "$.opponent"),
    ({"opponent": "external"}, "$.opponent"),
    ({"opponent": 3}, "$.opponent"),
    ({"opponent": "uci:/bin/true"}, "$.opponent"),
    ({"opponent": {"name": "stockfish", "path": "/bin/true"}}, "$.opponent.path"),
    ({"max_illegal": 0}, "$.max_illegal"),
    ({"fallback": "give up"}, "$.fallback"),
    ({"deadline_s": 0}, "$.deadline_s"),
    ({"experiment": ""}, "$.experiment"),
    ({"tensor": 1}, "$.tensor"),
    ({"resume": "yes"}, "$.resume"),
    ({"resume": True}, "$.episode_id"),
    ({"resume": True, "episode_id": "e", "seed": 1}, "$.seed"),
]


async def _is_usable(socket: Socket) -> None:
    assert (await socket.state())["step_count"] == 0


async def test_each_malformed_frame_gets_its_code(served: Served) -> None:
    """Exactly one error answers each, of the contract's code; an episode that has begun does not notice."""
    async with socket_of(served) as socket:
        begun = await socket.reset(agent_color="white", max_illegal=50)
        for frame, code in FRAMES:
            error(*await socket.say(frame), code)
            await _is_usable(socket)
        for data, path in RESETS:
            text = await socket.refused("VALIDATION_ERROR", "reset", data)
            assert text.startswith(f"{path}: "), text
            await _is_usable(socket)
        told = await socket.state()
        assert (told["episode_id"], told["attempts_left"]) == (begun["metadata"]["episode_id"], 50)
        assert (await socket.step("e2e4"))["metadata"]["accepted"]


async def test_a_strange_move_is_an_attempt(served: Served) -> None:
    """Whatever text is sent as a move is recorded as an illegal one; the text is kept as far as a log can keep it."""
    async with socket_of(served) as socket:
        await socket.reset(agent_color="white", max_illegal=50)
        for move, kept in (("", ""), ("\\u0000", "\ufffd"), ("\\ud800", "\ufffd"), ("♔", "♔"), ("e2e4 e7e5",) * 2):
            kind, data = await socket.say(f'{{"type": "step", "data": {{"move": "{move}"}}}}')
            assert (kind, data["reward"], data["done"]) == ("observation", -0.1, False)
            assert data["observation"]["metadata"]["attempted"] == kept


async def test_a_frame_over_the_limit_closes(served: Served) -> None:
    """A message of more than 64 KiB is not read to its end: the socket is closed with 1009."""
    async with socket_of(served) as socket:
        await socket.connection.send("x" * (MAX_BYTES + 1))
        with pytest.raises(ConnectionClosed):
            await socket.hear()
        assert await socket.closed() == 1009
