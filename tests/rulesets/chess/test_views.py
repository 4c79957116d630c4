"""What agents are shown of a game of chess."""

from __future__ import annotations

from worldledger_chess.rules import RULESET as CHESS

from tests.rules.seeing import registered
from tests.rulesets.chess import worlds as chess_worlds
from tests.rulesets.sandbox.worlds import effects_of
from worldledger.deltas import apply_delta
from worldledger.folding import Fold
from worldledger.observation import ObservationPolicy, PolicyConfig
from worldledger.views import Views


def test_a_chess_game_is_seen_move_by_move() -> None:
    """Both players and a spectator see the board; who is shown no clocks sees none; each move is an event."""
    drafts = [chess_worlds.started(), *[chess_worlds.moved(uci, clock=60.0) for uci in ("e2e4", "e7e5", "g1f3")]]
    views = Views(Fold("w", CHESS))
    policies = {
        "ana": ObservationPolicy(),
        "bo": ObservationPolicy(PolicyConfig(field_visibility={"clock": False, "thinking_time": False})),
        "fan": ObservationPolicy(PolicyConfig(distance_limit=1.0)),
    }
    for effect in effects_of([registered(*item) for item in policies.items()]):
        views.apply(effect)
    for name in policies:
        assert views.attach(name).visible_entities == {}
    kept = {name: views.view(name) for name in policies}
    for seq, posted in enumerate(drafts, 4):
        sightings = views.apply(chess_worlds.effects([posted] * seq)[-1])
        assert [sighting.agent_id for sighting in sightings] == ["ana", "bo", "fan"]
        for agent_id, delta, _ in sightings:
            kept[agent_id] = apply_delta(kept[agent_id], delta)
            assert [event["kind"] for event in delta["events"]] == [posted["kind"]]
            assert "clock" not in delta["events"][0]["payload"] or agent_id != "bo"
    for name, policy in policies.items():
        expected = policy.filter_world_state(views.fold.state, name)
        assert kept[name] == views.view(name) == expected
    assert kept["ana"].visible_entities["board"]["last_move"]["uci_notation"] == "g1f3"
    assert kept["ana"].visible_entities["white"]["clock"] == 60.0
    assert "clock" not in kept["bo"].visible_entities["white"]
