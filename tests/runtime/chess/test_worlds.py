"""Agents in worlds of chess: who may move, and what becomes of an illegal move."""

from __future__ import annotations

from worldledger_service.runtime import OrchestratorConfig

from tests.runtime.conftest import Opening
from tests.runtime.helpers import ALL, custom, draft, effects, head_of, refused
from worldledger.errors import IllegalEffectError, RecoveryAction


async def test_an_illegal_move_of_chess(opening: Opening) -> None:
    """Agents play by intents; what the rules forbid stands in the log with the rule, and the game goes on."""
    world = await opening(ruleset="chess")
    await world.broadcast_event(draft("GameStarted", {"agents": {"white": "w", "black": "b"}}))
    w, b = await world.register_agent("w", ALL), await world.register_agent("b", ALL)
    context = await head_of(world)
    for agent, uci, rule in ((w, "e2e5", "illegal_move"), (b, "e7e5", "not_your_turn")):
        intent = custom("MoveMade", {"uci_notation": uci}, context_seq=context)
        error = await refused(agent.submit_intent(intent))
        assert isinstance(error, IllegalEffectError)
        assert error.details["rule"] == rule
        assert error.recovery is RecoveryAction.MODIFY_INTENT
        assert (await effects(world))[-1]["payload"]["rule"] == rule
    accepted = await w.submit_intent(custom("MoveMade", {"uci_notation": "e2e4"}, context_seq=context))
    await world.reached(accepted.global_seq)
    await b.submit_intent(custom("MoveMade", {"uci_notation": "e7e5"}, context_seq=accepted.global_seq))
    state = (await world._follower._store.states.state_at(world.world_id, await head_of(world))).state
    assert state.entities["board"]["fen"].split()[0] == "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR"
    assert state.metadata["malformed_effects"] == 0


async def test_only_players_play(opening: Opening) -> None:
    """In a chess world an agent moves when it plays, and may resign; all else is the arena's to say."""
    world = await opening(config=OrchestratorConfig(staleness_threshold=100), ruleset="chess")
    ana, bo, eve = [await world.register_agent(name, ALL) for name in ("ana", "bo", "eve")]
    first = custom("MoveMade", {"uci_notation": "e2e4"})
    assert (await refused(ana.submit_intent(first))).details["rule"] == "game_not_started"
    await world.broadcast_event(draft("GameStarted", {"agents": {"white": "ana", "black": "bo"}}, "arena"))
    assert (await refused(eve.submit_intent(first))).details["rule"] == "not_a_player"
    assert (await refused(bo.submit_intent(first))).details["rule"] == "not_your_turn"
    await ana.submit_intent(first)
    won = {"status": "resigned", "result": "white_wins", "reason": "resignation"}
    assert (await refused(ana.submit_intent(custom("GameEnded", won)))).details["rule"] == "not_for_players"
    rejected = custom("MoveRejected", {"attempted": "e4", "reason": "illegal"})
    assert (await refused(bo.submit_intent(rejected))).details["rule"] == "not_for_players"
    accepted = await bo.submit_intent(custom("GameEnded", won))
    await world.reached(accepted.global_seq)
    assert world.world_state.entities["board"]["status"] == "resigned"
