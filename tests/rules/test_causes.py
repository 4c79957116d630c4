"""Causes: links are made from what is recorded, lead to earlier effects, and are the same from either end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldledger.causes import (
    INHERITED_CAUSE,
    LINK_KINDS,
    Context,
    History,
    Link,
    Place,
    Walk,
    Window,
    context_of,
    misnamed_cause,
    recorded_links,
    told_cause,
)
from worldledger.rulesets.base import Touched

_NAMES = st.sampled_from(["ann", "bob", "gate"])
_SEQS = st.integers(-3, 40)
#: Values that stand where a seq belongs, in forged logs.
_FORGED = st.one_of(_SEQS, st.none(), st.booleans(), st.floats(), st.text(max_size=3), st.just([1]), st.just({}))


class Step(NamedTuple):
    """An effect, and what folding it says."""

    effect: dict[str, Any]
    touched: Touched
    shown: dict[str, Collection[str]]


def effect(kind: str = "Said", source: str = "ann", **members: Any) -> dict[str, Any]:
    """Make an effect."""
    return {"kind": kind, "source_id": source, "payload": {}, "req_id": None, **members}


_EFFECTS = st.one_of(
    st.dictionaries(
        st.sampled_from(["kind", "payload", "source_id", "source_metadata", "req_id", "caused_by"]), _FORGED
    ),
    st.builds(lambda source, cause: effect(source=source, caused_by=cause), _NAMES, _FORGED),
    st.builds(
        lambda world, seq: effect(
            caused_by=1, source_metadata={INHERITED_CAUSE: {"world_id": world, "global_seq": seq}}
        ),
        st.one_of(st.sampled_from(["p", "w"]), _FORGED),
        _FORGED,
    ),
    st.builds(
        lambda source, seq, req: effect(
            source=source, req_id=req, source_metadata={"intent": "Speak", "context_seq": seq}
        ),
        _NAMES,
        _FORGED,
        st.sampled_from([None, "r1", "r2"]),
    ),
    st.builds(
        lambda kind, agent, seq, req, reason: effect(
            kind, payload={"agent_id": agent, "context_seq": seq, "req_id": req, "reason": reason}
        ),
        st.sampled_from(["GenerationStarted", "GenerationCancelled", "GenerationFinished", "IntentRejected"]),
        st.one_of(_NAMES, _FORGED),
        _FORGED,
        st.one_of(st.sampled_from(["r1", "r2"]), _FORGED),
        st.one_of(_SEQS.map(lambda seq: f"stale_due_to_effect_{seq}"), _FORGED),
    ),
)
_STEPS = st.lists(
    st.builds(
        Step,
        _EFFECTS,
        st.one_of(st.none(), _NAMES, st.lists(_NAMES, max_size=3).map(tuple)),
        st.dictionaries(_NAMES, st.frozensets(_NAMES), max_size=2),
    ),
    max_size=30,
)


def window(steps: list[Step], first: int = 1) -> Window:
    """Return a window over these steps."""
    made = Window(History("w"))
    fill(made, steps, first)
    return made


def fill(made: Window, steps: list[Step], first: int = 1) -> None:
    """Add these steps to a window."""
    for seq, step in enumerate(steps, first):
        made.take(seq, step.effect, step.touched, step.shown, {"ann", "bob"})


def genesis(parent: str, seq: int) -> Step:
    """Make the genesis of a fork."""
    point = {"world_id": parent, "world_uuid": "0" * 32, "global_seq": seq, "checksum": "0" * 64}
    return Step(effect("WorldCreated", "worldledger", payload={"fork_of": point}), None, {})


def forked(steps: list[Step], own: list[Step]) -> tuple[Window, History]:
    """Return a window over a world p and its fork w, with their history."""
    history = History("w", [("p", len(steps))])
    made = Window(history)
    fill(made, [*steps, genesis("p", len(steps)), *own])
    return made, history


@given(_STEPS, st.integers(1, 20))
def test_links_back_lead_to_earlier_effects(steps: list[Step], first: int) -> None:
    """Whatever a log holds, every link back, of every kind, leads to a seq from 1 on that lies before the effect."""
    made = window(steps, first)
    for seq, step in enumerate(steps, first):
        for link in [*made.back(seq), *recorded_links(Place("w", seq), step.effect, first)]:
            assert 1 <= link.place.global_seq < seq
            assert link.kind in LINK_KINDS
            assert list(link.entities) == sorted(set(link.entities))


@given(_STEPS, st.integers(1, 20))
def test_forward_is_the_inverse_of_back(steps: list[Step], first: int) -> None:
    """The links found from causes are those found from effects: kind, both ends and entities, none more or less."""
    made = window(steps, first)
    seqs = range(1, first + len(steps))
    back = Counter((link.kind, link.place.global_seq, seq, link.entities) for seq in seqs for link in made.back(seq))
    forward = Counter(
        (link.kind, seq, link.place.global_seq, link.entities) for seq in seqs for link in made.forward(seq)
    )
    assert back == forward


@given(_STEPS.filter(bool), _STEPS)
def test_links_are_the_same_from_either_end_over_a_fork_point(steps: list[Step], own: list[Step]) -> None:
    """In the whole history of a fork forward is the inverse of back, and links back lead to earlier effects."""
    made, history = forked(steps, own)
    numbers = range(1, len(steps) + len(own) + 2)
    back = Counter(
        (link.kind, history.number(link.place), number, link.entities)
        for number in numbers
        for link in made.back(number)
    )
    forward = Counter(
        (link.kind, number, history.number(link.place), link.entities)
        for number in numbers
        for link in made.forward(number)
    )
    assert back == forward
    assert all(cause is not None and 1 <= cause < number for _, cause, number, _ in back)


@given(_STEPS)
def test_a_window_knows_what_effects_record(steps: list[Step]) -> None:
    """What an effect records by itself is among the links that a window has for it."""
    made = window(steps)
    for seq, step in enumerate(steps, 1):
        known = {(link.kind, link.place) for link in made.back(seq)}
        assert {(link.kind, link.place) for link in recorded_links(Place("w", seq), step.effect)} <= known


@given(_STEPS, st.integers(0, 5), st.integers(1, 4), st.integers(1, 12))
def test_a_walk_keeps_its_bounds_and_tells_what_it_left_out(
    steps: list[Step], depth: int, width: int, most: int
) -> None:
    """No more effects, links and levels than allowed; links lead to effects that are there; the rest is counted."""
    made = window(steps)
    root = Place("w", max(len(steps), 1))
    walk = Walk(root, depth=depth, width=width, most=most)
    while walk.wanted:
        walk.take({place: made.back(place.global_seq) for place in walk.wanted})
    assert len(walk.nodes) <= most
    for place, node in walk.nodes.items():
        kinds = Counter(link.kind for link in node.links)
        assert node.depth <= depth
        assert all(count <= width for count in kinds.values())
        assert all(link.place in walk.nodes for link in node.links)
        if node.is_expanded:
            every = Counter(link.kind for link in made.back(place.global_seq))
            assert kinds + Counter(node.left_out) == every
        else:
            assert (node.links, node.left_out, node.depth) == ([], {}, depth)


def test_the_nearest_links_are_followed() -> None:
    """Of too many links those to the nearest effects are taken, of each kind by itself."""
    walk = Walk(Place("w", 10), depth=1, width=2, most=100)
    told = [Link("told", Place("w", seq)) for seq in (1, 9, 5)]
    walk.take({Place("w", 10): [*told, Link("context", Place("w", 3), ("gate",))]})
    node = walk.nodes[Place("w", 10)]
    assert [(link.kind, link.place.global_seq) for link in node.links] == [("told", 9), ("told", 5), ("context", 3)]
    assert node.left_out == {"told": 1}


@pytest.mark.parametrize("cause", [-1, 0, 5, 6, 2**70, 1.0, True, "1", [1], {}])
def test_a_forged_cause_is_none(cause: Any) -> None:
    """A caused_by that is no earlier seq makes no link, and is told as what is wrong with the effect."""
    forged = effect(caused_by=cause)
    assert told_cause(forged, 5) is None
    assert misnamed_cause(forged, 5)
    assert recorded_links(Place("w", 5), forged) == []


def test_an_honest_cause_is_told() -> None:
    """A caused_by that names an earlier effect is a link; an effect without one is not at fault."""
    assert recorded_links(Place("w", 5), effect(caused_by=2)) == [Link("told", Place("w", 2))]
    assert not misnamed_cause(effect(caused_by=2), 5)
    assert not misnamed_cause(effect(), 5)


def test_a_cancelled_generation_names_the_sighting() -> None:
    """The sighting that made a generation stale is its told cause; other reasons name none."""
    for reason, cause in (("stale_due_to_effect_4", 4), ("stale_due_to_effect_x", None), ("evicted", None)):
        cancelled = effect("GenerationCancelled", payload={"reason": reason})
        assert told_cause(cancelled, 9) == cause
        assert not misnamed_cause(cancelled, 9)


def test_a_request_leads_back_over_its_attempts() -> None:
    """An effect is linked to the generation and to the refusals of its agent and req_id, and to no others."""
    of = {"agent_id": "bob", "req_id": "r1"}
    made = window(
        [
            Step(effect("GenerationStarted", "bob", payload=of), (), {}),
            Step(effect("IntentRejected", "worldledger", req_id="rejected:1", payload=of), (), {}),
            Step(effect("Speak", "ann", req_id="r1"), (), {}),
            Step(effect("Speak", "bob", req_id="r1"), (), {}),
            Step(effect("GenerationFinished", "bob", payload=of), (), {}),
        ]
    )
    assert [(link.kind, link.place.global_seq) for link in made.back(4)] == [("request", 1), ("request", 2)]
    assert [link.place.global_seq for link in made.back(5)] == [1, 2, 4]
    assert made.back(3) == []


def test_the_effects_of_one_request_lead_to_its_first() -> None:
    """In a request of many effects each is linked to the first one, also where a window begins inside it."""
    many = [Step(effect(source="ann", req_id="bulk"), (), {}) for _ in range(4)]
    assert [link.place.global_seq for seq in range(1, 5) for link in window(many).back(seq)] == [1, 1, 1]
    made = Window(History("w"))
    made.begin_request("ann", "bulk", 2, 7)
    for seq, step in enumerate(many, 8):
        made.take(seq, step.effect)
    assert [link.place.global_seq for seq in range(8, 12) for link in made.back(seq)] == [2, 2, 2, 2]


def test_a_context_leads_to_what_the_agent_had_been_shown() -> None:
    """A decision is linked to the effect that made its view, and to those that last showed what was in it."""
    decided = effect(source="bob", source_metadata={"intent": "Speak", "context_seq": 4})
    made = window(
        [
            Step(effect(), (), {"bob": {"gate"}}),
            Step(effect(), (), {"bob": {"gate", "ann"}, "ann": {"bob"}}),
            Step(effect(), (), {"bob": {"ann"}}),
            Step(effect(), (), {"bob": ()}),
            Step(effect(), (), {"bob": {"gate"}}),
            Step(decided, (), {}),
        ]
    )
    assert context_of(decided) == Context("bob", 4)
    assert sorted(made.back(6)) == [
        Link("context", Place("w", 2), ("gate",)),
        Link("context", Place("w", 3), ("ann",)),
        Link("context", Place("w", 4)),
    ]


def test_the_same_entity_is_the_last_effect_that_may_have_changed_it() -> None:
    """One that may have changed anything counts for the entities that there were then, and not for later ones."""
    made = window(
        [
            Step(effect(), "gate", {}),
            Step(effect(), None, {}),  # ann and bob are there, the gate is not
            Step(effect(), ("gate", "ann"), {}),
            Step(effect(), "ann", {}),
        ]
    )
    assert sorted(made.back(3)) == [
        Link("same entity", Place("w", 1), ("gate",)),
        Link("same entity", Place("w", 2), ("ann",)),
    ]
    assert made.back(4) == [Link("same entity", Place("w", 3), ("ann",))]
    assert made.back(2) == []


def test_a_history_counts_its_ancestors_through() -> None:
    """Each place up to the fork points has a number; what an ancestor did later has none, nor has another world."""
    history = History("w", [("g", 3), ("p", 2)])
    line = [Place("g", 1), Place("g", 2), Place("g", 3), Place("p", 1), Place("p", 2), Place("w", 1), Place("w", 9)]
    assert [history.number(place) for place in line] == [1, 2, 3, 4, 5, 6, 14]
    assert [history.place(number) for number in (1, 2, 3, 4, 5, 6, 14)] == line
    assert [history.number(place) for place in (Place("g", 4), Place("p", 3), Place("x", 1), Place("w", 0))] == [
        None
    ] * 4


def test_a_cause_of_before_the_fork_point() -> None:
    """A fork's effect may name one in its history, instead of the genesis; what names no place there is no link."""
    said: dict[str, Any] = {"caused_by": 1, "source_metadata": {INHERITED_CAUSE: {"world_id": "p", "global_seq": 2}}}
    history = History("w", [("p", 3)])
    assert recorded_links(Place("w", 5), effect(**said), None, history) == [Link("told", Place("p", 2))]
    assert recorded_links(Place("w", 5), effect(**said)) == [Link("told", Place("w", 1))]
    for world_id, seq in (("p", 4), ("p", 0), ("q", 1), ("w", 2), ("p", "2"), ("p", True), (None, 2), ("p", 2**70)):
        named = {**said, "source_metadata": {INHERITED_CAUSE: {"world_id": world_id, "global_seq": seq}}}
        assert recorded_links(Place("w", 5), effect(**named), None, history) == [Link("told", Place("w", 1))]
    made, _ = forked([Step(effect(), (), {})] * 3, [Step(effect(**said), (), {})])
    assert made.back(5) == [Link("told", Place("p", 2))]
    assert made.forward(2) == [Link("told", Place("w", 2))]
    assert made.forward(3) == [Link("told", Place("w", 1))]


def test_what_was_seen_before_the_fork_point_is_decided_from_after_it() -> None:
    """An agent's context leads into the parent, to what last showed it each entity, unless the fork showed it again."""
    shown = [Step(effect(), (), {"bob": {"gate", "ann"}}), Step(effect(), (), {"bob": {"gate"}})]
    decided = effect(source="bob", source_metadata={"intent": "Speak", "context_seq": 2})
    made, _ = forked(shown, [Step(effect(), (), {"bob": {"ann"}}), Step(decided, (), {})])
    assert sorted(made.back(5)) == [
        Link("context", Place("p", 2), ("gate",)),
        Link("context", Place("w", 2), ("ann",)),
    ]
    assert made.forward(1) == []
    assert Link("context", Place("w", 3), ("gate",)) in made.forward(2)


def test_a_request_goes_on_after_the_fork_point_unless_it_was_accepted() -> None:
    """A generation before the fork point leads to its effect in the fork; a req_id that is used anew leads nowhere."""
    started = [Step(effect("GenerationStarted", "bob", payload={"agent_id": "bob", "req_id": r}), (), {}) for r in "ab"]
    accepted = Step(effect("Speak", "bob", req_id="a"), (), {})
    made, _ = forked([*started, accepted], [Step(effect("Speak", "bob", req_id=r), (), {}) for r in "ab"])
    assert made.back(5) == []
    assert made.back(6) == [Link("request", Place("p", 2))]
    assert made.forward(2) == [Link("request", Place("w", 3))]
