"""Causes: links are made from what is recorded, lead to earlier effects, and are the same from either end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldledger.causes import (
    LINK_KINDS,
    Context,
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
    made = Window("w")
    for seq, step in enumerate(steps, first):
        made.take(seq, step.effect, step.touched, step.shown, {"ann", "bob"})
    return made


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
    made = Window("w")
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
