"""A few small worlds whose every answer can be worked out by hand."""

from __future__ import annotations

from typing import Any

from worldledger_service.settings import Settings
from worldledger_service.store import Store
from worldledger_service.store.forking import NewFork

from tests.markets import market
from worldledger.effects import EffectDraft
from worldledger.genesis import NewWorld
from worldledger.moments import Moment

#: The wall clock of all of them: 2023-11-14 22:13:20 UTC.
WALL = 1.7e9


def draft(kind: str, source_id: str, sim_time: float | None = None, **payload: Any) -> EffectDraft:
    """Make a draft."""
    made: EffectDraft = {"kind": kind, "payload": payload, "source_id": source_id, "schema_version": "1.0.0"}
    if sim_time is not None:
        made["sim_time"] = sim_time
    return made


async def make_all(url: str) -> None:
    """Make all worlds."""
    async with Store.open(url, Settings(pool_size=2, snapshot_every=10**6), clock=lambda: WALL) as store:
        await _make_games(store)
        await _make_runs(store)
        await _make_box(store)
        await _make_talk(store)
        await _make_simulation(store)
        await _make_forks(store)


async def make_extremes(url: str) -> None:
    """Make worlds whose numbers are as large as a payload's may be, of both signs."""
    most = 1.7e308
    async with Store.open(url, Settings(pool_size=2, snapshot_every=10**6), clock=lambda: WALL) as store:
        drafts = [draft("RoundStarted", "coach", 100.0, round_number=1)]
        for number, (one, other) in enumerate([(most, -most), (most, most), (-most, most), (-most, -most)], 1):
            more = {"synthesis_inclusion": other, "direct_references": 2**53 - 1, "response_received": 2**53 - 1}
            drafts += [
                _said("W+A", number, 1, 100.0, "one"),
                _feedback("W+A", number, 100.0, one, other, **more),
                _feedback("W+B", number, 100.0, one, one, **more),
                _adapted(100.0, "activate_cue", "ask", intensity=one, engagement_delta=other, alignment_delta=one),
                draft("RoundEnded", "coach", 100.0, round_number=number, duration_seconds=most),
                draft("RoundStarted", "coach", 100.0, round_number=number + 1),
            ]
        await _run(store, "s1", "a", drafts, strict=False)
        await store.import_world(
            NewWorld(world_id="box", experiment="box", time_authority="client"),
            [
                _intended(draft("Interact", "ann", 0.0, target_id="bob"), "Interact", 1),
                {**draft("Answered", "bob", most), "caused_by": 2},
                {**draft("Answered", "bob", most), "caused_by": 2},
            ],
        )
        log = await store.log("box")
        many = [_cancelled(f"r{n}", "stale_due_to_effect_5", most) for n in range(3)]
        await log.append_all([{**each, "sim_time": most} for each in many], system=True)
        config = market()
        config["state_variables"]["agent_vars"]["debt"] = {"type": "float", "default": most}
        config["state_variables"]["global_vars"]["debt"] = {"type": "float", "default": -most}
        await store.create_world(NewWorld(world_id="fair", ruleset="simulation", experiment="fair", config=config))
        log = await store.log("fair")
        patch = [{"op": "replace", "path": "/debt", "value": -most}]
        count: dict[str, Any] = {"reasoning": "", "model": "m", "token_count": 2**53 - 1}
        for _ in range(2):
            await log.append_all(
                [
                    draft("TurnStarted", "engine"),
                    draft("AgentStateChanged", "engine", agent_id="Ann", patch=patch),
                    *(draft("ReasoningRecorded", "engine", agent_id="Ann", **count) for _ in range(2)),
                    draft("TurnEnded", "engine"),
                ]
            )


# -- chess: three finished games of Ann and Bob, and one of a model that goes on -----------------------------

_MATE = (("f2f3", 1.0), ("e7e5", 2.0), ("g2g4", 3.0), ("d8h4", 4.0))


async def _make_games(store: Store) -> None:
    end = draft("GameEnded", "arena", status="checkmate", result="black_wins", reason="checkmate")
    draw = draft("GameEnded", "arena", status="draw", result="draw", reason="agreement")
    tried = draft("MoveRejected", "Bob", player="white", attempted="e9", reason="illegal_move", ply=1)
    await _game(store, "g1", "Ann", "Bob", [*_moves(("Ann", "Bob"), _MATE), end])
    await _game(store, "g2", "Bob", "Ann", [tried, *_moves(("Bob", "Ann"), _MATE), end])
    await _game(store, "g3", "Ann", "Bob", [*_moves(("Ann", "Bob"), (("e2e4", 9.0), ("e7e5", None))), draw])
    live = {"live": {"white": {"agent_id": "m1", "model_name": "owner/one"}, "black": {"agent_id": "m2"}}}
    wrong = draft("MoveRejected", "m2", player="black", attempted="e7e4", ply=2)
    played = _moves(("m1", "m2"), (("e2e4", None), ("e7e5", None)))
    world = NewWorld(world_id="g4", ruleset="chess", experiment="chess", config=live)
    await store.import_world(world, [played[0], wrong, played[1]])


async def _game(store: Store, world_id: str, white: str, black: str, drafts: list[EffectDraft], **fields: Any) -> None:
    start = draft("GameStarted", "arena", white=white, black=black)
    world = NewWorld(world_id=world_id, ruleset="chess", experiment="chess")
    await store.import_world(world, [start, *drafts])


def _moves(players: tuple[str, ...], moves: Any) -> list[EffectDraft]:
    return [
        draft("MoveMade", players[number % len(players)], uci_notation=uci, thinking_time=seconds)
        for number, (uci, seconds) in enumerate(moves)
    ]


# -- social RL: a run of condition a and one of condition b --------------------------------------------------


async def _make_runs(store: Store) -> None:
    await _run(
        store,
        "s1",
        "a",
        [
            draft("RoundStarted", "coach", 100.0, round_number=1),
            _said("W+A", 1, 1, 100.0, "one two three", prar_cue_used="[ASK]"),
            _said("W+B", 1, 2, 104.0, "four"),
            _said("Coach+C", 1, 3, 105.0, "not for you", internal=True),
            _feedback("W+A", 1, 105.0, 0.25, 0.5, direct_references=1, synthesis_inclusion=0.0),  # effect 7
            _feedback("W+B", 1, 105.0, 0.5, 0.75, direct_references=3, response_received=1, synthesis_inclusion=0.5),
            {**_adapted(106.0, "activate_cue", "ask", intensity=0.5), "caused_by": 7},
            draft("RoundEnded", "coach", 106.0, round_number=1, duration_seconds=10.0),
            draft("RoundStarted", "coach", 200.0, round_number=2),
            _said("W+B", 2, 1, 200.0, "five six"),
            _said("W+A", 2, 2, 203.0, "seven"),
            _feedback("W+A", 2, 204.0, 0.75, 1.0, direct_references=1, synthesis_inclusion=1.0),
            _feedback("W+B", 2, 204.0, 0.5, 0.5, direct_references=0, response_received=0, synthesis_inclusion=0.0),
            draft("RoundEnded", "coach", 204.0, round_number=2, duration_seconds=20.0),
        ],
    )
    await _run(
        store,
        "s2",
        "b",
        [
            draft("RoundStarted", "coach", 100.0, round_number=1),
            _said("W+A", 1, 1, 100.0, "alone"),
            _feedback("W+A", 1, 101.0, 1.0, 1.0),
            _adapted(102.0, "activate_cue", "stop"),
            _adapted(102.0, "deactivate_cue", "ask"),
            draft("RoundStarted", "coach", 200.0, round_number=2),
            _feedback("W+A", 2, 201.0, 0.5, 0.75),
            draft("RoundEnded", "coach", 202.0, round_number=2, duration_seconds=30.0),
        ],
    )


async def _run(store: Store, world_id: str, condition: str, drafts: list[EffectDraft], **config: Any) -> None:
    world = NewWorld(
        world_id=world_id, ruleset="social_rl", experiment="social", time_authority="client", config=config
    )
    begun = draft(
        "ExperimentStarted",
        "coach",
        100.0,
        meta={"experiment_id": world_id, "model": "owner/two"},
        extra={"condition": condition, "seed": 1},
    )
    await store.import_world(world, [begun, *drafts])


def _said(agent_id: str, number: int, turn: int, timestamp: float, content: str, **more: Any) -> EffectDraft:
    fields = {"agent_id": agent_id, "round_number": number, "turn_number": turn, "timestamp": timestamp, **more}
    return draft("MessageEmitted", agent_id, timestamp, content=content, **fields)


def _adapted(now: float, kind: str, cue: str, **more: Any) -> EffectDraft:
    fields = {"agent_id": "W+A", "adaptation_type": kind, "cue": cue, "round_number": 1, **more}
    return draft("PolicyAdapted", "coach", now, **fields)


def _feedback(agent_id: str, number: int, now: float, engagement: float, alignment: float, **more: Any) -> EffectDraft:
    fields = {"agent_id": agent_id, "round_number": number, "contribution_value": 0.5, **more}
    return draft("FeedbackRecorded", "coach", now, engagement=engagement, theoretical_alignment=alignment, **fields)


# -- a sandbox: intents, interactions, generations, a snapshot -----------------------------------------------


async def _make_box(store: Store) -> None:
    await store.import_world(
        NewWorld(world_id="box", experiment="box", time_authority="client"),
        [
            _intended(draft("Interact", "ann", 1.0, target_id="bob"), "Interact", 1),
            _intended(draft("Interact", "ann", 2.0, target_id="bob"), "Interact", 2),
            {**draft("Answered", "bob", 4.0), "caused_by": 2},
            {**draft("Answered", "bob", 8.0), "caused_by": 3},
            _intended(draft("Speak", "bob", 8.0, text="hello"), "Speak", 2),
        ],
    )
    log = await store.log("box")
    await log.append_all(
        [
            _rejected("ann", "r1", code="illegal_effect", rule="payload", reason="no such thing"),
            _rejected("bob", "r2", code="illegal_effect", rule="payload", reason="nor that"),
            _rejected("ann", "r3", code="permission_denied", reason="not you"),
            _cancelled("r4", "stale_due_to_effect_5", 10.0),
            _cancelled("r5", "stale_due_to_effect_17", 30.0),
        ],
        system=True,
    )
    await store.snapshot("box")


def _rejected(agent_id: str, req_id: str, **why: Any) -> EffectDraft:
    made = draft("IntentRejected", "worldledger", agent_id=agent_id, req_id=req_id, context_seq=3, payload={}, **why)
    made["payload"]["kind"] = "Custom"
    return made


def _cancelled(req_id: str, reason: str, latency_ms: float) -> EffectDraft:
    return draft("GenerationCancelled", "ann", agent_id="ann", req_id=req_id, reason=reason, latency_ms=latency_ms)


def _intended(made: EffectDraft, kind: str, context_seq: int) -> EffectDraft:
    return {**made, "source_metadata": {"intent": kind, "context_seq": context_seq}}


# -- a talk: three answers of a model, the first cut off by bob, the last too late ----------------------------------


async def _make_talk(store: Store) -> None:
    await store.create_world(NewWorld(world_id="talk", experiment="talk", time_authority="client"))
    log = await store.log("talk")
    cancelled = _cancelled("g1", "stale_due_to_effect_3", 5.0)
    cut = _reported("g1", "interrupted", 100, 400, tokens_out=12, price=0.25)
    acted = _reported("g2", "acted", 200, 400, tokens_in=100, tokens_out=20, price=0.5)
    late = _reported("g3", "stale", 300, 800, tokens_in=100, tokens_out=20, price=0.5)
    await log.append_all([_started("g1")], system=True)
    await log.append_all([draft("Speak", "bob", text="wait")])
    await log.append_all([cancelled, cut, _started("g2"), acted, _started("g3"), late], system=True)


def _started(req_id: str) -> EffectDraft:
    model = {"name": "tiny", "seed": 7}
    return draft("GenerationStarted", "ann", agent_id="ann", req_id=req_id, context_seq=1, model=model)


def _reported(req_id: str, outcome: str, first_token_ms: int, took_ms: int, **more: Any) -> EffectDraft:
    took: dict[str, Any] = {"first_token_ms": first_token_ms, "took_ms": took_ms, "currency": "EUR"}
    return draft("GenerationReported", "ann", agent_id="ann", req_id=req_id, outcome=outcome, **took, **more)


# -- a simulation: Bea is shown what Ann has, blurred --------------------------------------------------------


async def _make_simulation(store: Store) -> None:
    await store.create_world(NewWorld(world_id="fair", ruleset="simulation", experiment="fair", config=market()))
    log = await store.log("fair")
    spent = _has("Ann", "gold", 90)
    because = draft("ReasoningRecorded", "engine", agent_id="Ann", reasoning="cheap!", model="owner/one", token_count=7)
    why = draft("ReasoningRecorded", "engine", agent_id="Bea", reasoning={"a": 1}, model="owner/one", token_count=3)
    await log.append_all([draft("TurnStarted", "engine"), spent, because, why, draft("TurnEnded", "engine")])


# -- forks: what is asked of all worlds does not count them --------------------------------------------------


async def _make_forks(store: Store) -> None:
    """Fork the box after its first refusal, the first run after its first answer, a game and the fair; and go on.

    The fair is forked after its first turn. That fork is forked within its second, with its noise, before a change that
    the second fork does not have.
    """
    await store.fork("box", Moment(seq=7), NewFork(world_id="box-on"))
    log = await store.log("box-on")
    called = _intended(draft("Interact", "bob", 10.0, target_id="ann"), "Interact", 2)
    before = {"inherited_cause": {"world_id": "box", "global_seq": 5}}
    nodded: EffectDraft = {**draft("Nodded", "ann", 14.0), "caused_by": 1, "source_metadata": before}
    await log.append_all([called, {**draft("Answered", "ann", 13.0), "caused_by": 3}, nodded])
    await log.append_all([_rejected("bob", "r9", code="illegal_effect", rule="payload", reason="not now")], system=True)
    await store.fork("s1", Moment(seq=5), NewFork(world_id="s1-on"))
    await (await store.log("s1-on")).append_all([_said("W+A", 1, 3, 109.0, "again")])
    await store.fork("g3", Moment(seq=3), NewFork(world_id="g3-on"))
    end = draft("GameEnded", "arena", status="resigned", result="white_wins", reason="resignation")
    await (await store.log("g3-on")).append_all([*_moves(("Bob",), (("c7c5", 50.0),)), end])
    turn = [draft("TurnStarted", "engine"), draft("TurnEnded", "engine")]
    await store.fork("fair", Moment(seq=10), NewFork(world_id="fair-on"))
    fair = await store.log("fair-on")
    within = (await fair.append_all([turn[0], _has("Ann", "inventory/food", 21.5)]))[-1].global_seq
    await fair.append_all([_has("Ann", "gold", 70), *turn[::-1], _has("Ann", "inventory/metal", 4.0)])
    await store.fork("fair-on", Moment(seq=within), NewFork(world_id="fair-still", same_noise=True))
    still = await store.log("fair-still")
    await still.append_all([*turn[::-1], _has("Ann", "inventory/food", 8.25), *turn[::-1]])


def _has(agent_id: str, path: str, value: float) -> EffectDraft:
    return draft(
        "AgentStateChanged", "engine", agent_id=agent_id, patch=[{"op": "replace", "path": f"/{path}", "value": value}]
    )
