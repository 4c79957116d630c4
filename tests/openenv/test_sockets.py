"""The socket: one answer to each message, in order; what closes it, and how an episode outlives it."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from worldledger_chess.arena import Arena, LiveGame

from tests.api.helpers import Served, serving
from tests.waiting import wait_for
from worldledger.errors import SchemaVersionError, StoreUnavailableError

from .helpers import Socket, message, socket_of, state_of


async def test_before_the_first_reset(served: Served) -> None:
    """There is a state of nothing, and no step: a client that came back is not given another game without a word."""
    async with socket_of(served) as socket:
        told = await socket.state()
        assert (told["episode_id"], told["step_count"], told["move_history"]) == (None, 0, [])
        assert "reset first" in await socket.refused("EXECUTION_ERROR", "step", {"move": "e2e4"})


async def test_messages_are_answered_one_by_one_in_order(served: Served) -> None:
    """However many are sent at once, each has one answer in its place, and nothing else comes."""
    async with socket_of(served) as socket:
        said = [
            message("reset", {"opponent": "self"}),
            message("step", {"move": "e2e4"}),
            "rubbish",
            message("state"),
            message("step", {"move": "e2e4"}),
            message("step", {"move": "e7e5"}),
            message("state"),
        ]
        for text in said:
            await socket.connection.send(text)
        answers = [await socket.hear() for _ in said]
        kinds = [kind for kind, _ in answers]
        assert kinds == ["observation", "observation", "error", "state", "observation", "observation", "state"]
        assert [data["step_count"] for kind, data in answers if kind == "state"] == [1, 2]
        assert [data["reward"] for kind, data in answers if kind == "observation"] == [0.0, 0.0, -0.1, 0.0]
        await socket.connection.send(message("close"))
        assert await socket.closed() == 1000
    gauge = served.services.metrics.registry.get_sample_value
    await wait_for(lambda: gauge("worldledger_sockets_open") == 0, "it is counted no more")


async def test_a_reset_that_says_nothing(served: Served) -> None:
    """Null, nothing and an empty object are the same."""
    async with socket_of(served) as socket:
        for text in ('{"type": "reset", "data": null}', '{"type": "reset"}', '{"type": "reset", "data": {}}'):
            kind, data = await socket.say(text)
            assert (kind, data["done"]) == ("observation", False)


async def test_a_reset_begins_anew_and_sockets_do_not_meet(served: Served) -> None:
    """Each reset is another episode, each socket has its own; what was left can be resumed, on any socket."""
    async with socket_of(served) as one, socket_of(served) as other:
        await one.reset(seed=1, agent_color="white", episode_id="first")
        await other.reset(seed=1, agent_color="white", episode_id="second", tensor=True)
        mine, theirs = await asyncio.gather(one.step("e2e4"), other.step("d2d4"))
        assert (mine["metadata"]["episode_id"], theirs["metadata"]["episode_id"]) == ("first", "second")
        assert ("board_tensor" in mine["metadata"], "board_tensor" in theirs["metadata"]) == (False, True)
        assert "is taken" in await one.refused("EXECUTION_ERROR", "reset", {"episode_id": "second"})
        assert (await one.state())["episode_id"] == "first"
        await one.reset(episode_id="third")
        assert (await one.state())["step_count"] in {0, 1}
        back = await other.reset(episode_id="first", resume=True)
        assert (back["fen"], back["legal_moves"]) == (mine["fen"], mine["legal_moves"])
        wrong = {"move": "d2d4", "metadata": {"episode_id": "second"}}
        assert "'first'" in await other.refused("VALIDATION_ERROR", "step", wrong)
        assert (await other.step("d2d4", episode_id="first"))["metadata"]["accepted"]
        assert (await other.state())["move_history"][::2] == ["e2e4", "d2d4"]


async def test_a_step_after_the_end(served: Served) -> None:
    """It is an error that says how the episode has ended; a reset on the same socket begins another."""
    async with socket_of(served) as socket:
        await socket.reset(opponent="self")
        for move in ("f2f3", "e7e5", "g2g4"):
            await socket.step(move)
        seen = await socket.step("d8h4")
        assert (seen["done"], seen["result"], seen["reward"], seen["is_check"]) == (True, "0-1", 1.0, True)
        text = await socket.refused("EXECUTION_ERROR", "step", {"move": "a2a3"})
        assert "the episode is over (0-1, checkmate)" in text
        assert not (await socket.reset())["done"]


# -- what closes it ----------------------------------------------------------------------------------------


async def test_a_full_arena_closes_the_socket(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the service plays as many games as it may, a reset that wants another such player is CAPACITY_REACHED."""
    monkeypatch.setenv("WORLDLEDGER_MAX_GAMES", "1")
    async with serving(database_url) as served, socket_of(served) as one, socket_of(served) as other:
        wanted = {"opponent": {"name": "random"}, "agent_color": "white"}
        await one.reset(**wanted)
        await other.refused("CAPACITY_REACHED", "reset", wanted)
        assert await other.closed() == 1013
        assert not (await one.reset())["done"]  # an opponent that needs nobody has room


async def test_errors_of_the_service(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no client can help closes the socket, what passes does not; nothing of the inside is told."""
    errors: list[tuple[Exception, str, bool]] = [
        (SchemaVersionError("inside: another version", found="x", expected="y"), "FACTORY_ERROR", True),
        (RuntimeError("inside: nobody foresaw this"), "SESSION_ERROR", True),
        (StoreUnavailableError("inside: a host"), "EXECUTION_ERROR", False),
    ]

    for error, code, closed in errors:

        async def fail(*_: Any, error: Exception = error) -> Any:
            raise error

        async with socket_of(served) as socket:
            with monkeypatch.context() as patched:
                patched.setattr(Arena, "create", fail)
                assert "inside" not in await socket.refused(code, "reset", {})
            if closed:
                assert await socket.closed() == 1011
            else:
                assert not (await socket.reset())["done"]


async def test_a_step_of_unknown_outcome_is_sent_again(
    served: Served, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the database went away while a step was written, the same move again is the same attempt, made once."""
    move = LiveGame.move

    async def lose(self: LiveGame, *arguments: Any, **keywords: Any) -> Any:
        await move(self, *arguments, **keywords)
        raise StoreUnavailableError("gone", outcome="unknown")

    async with socket_of(served) as socket:
        await socket.reset(opponent="self", episode_id="e")
        with monkeypatch.context() as patched:
            patched.setattr(LiveGame, "move", lose)
            await socket.refused("EXECUTION_ERROR", "step", {"move": "e2e4"})
        assert (await state_of(client, "e"))["move_history"] == ["e2e4"]
        assert (await socket.step("e2e4"))["metadata"]["accepted"]
        assert (await state_of(client, "e"))["move_history"] == ["e2e4"]
        assert (await socket.step("e2e4"))["reward"] == -0.1


async def test_an_idle_socket_is_closed(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is asked for as long as the setting has it, the socket is closed; its episode goes on."""
    monkeypatch.setenv("WORLDLEDGER_WATCH_IDLE", "0.3")
    async with serving(database_url) as served:
        async with socket_of(served) as socket:
            begun = await socket.reset(agent_color="white")
            assert await socket.closed() == 1001
        async with socket_of(served) as socket:
            await socket.reset(episode_id=begun["metadata"]["episode_id"], resume=True)
            assert (await socket.step("e2e4"))["metadata"]["accepted"]


async def test_a_service_that_stops_says_so(served: Served) -> None:
    """Whoever has a socket open is told to come again; nothing hangs."""

    async def told(socket: Socket) -> int | None:
        await socket.reset()
        await served.stop()
        return await socket.closed()

    async with socket_of(served) as socket:
        assert await told(socket) == 1012
