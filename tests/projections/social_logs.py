"""Social-RL logs for the tests of what follows them: random ones, of which not all can be read."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from tests.projections.playing import effects_of
from tests.rules.values import GOOD_JSON
from tests.rulesets.social_rl.documents import ALICE, adaptation, context_frame, feedback, message, meta, policy_state
from worldledger.effects import Effect

Draft = dict[str, Any]
AGENTS: Final = [ALICE, "Owner+Marta", "CES_Urban"]


def draft(kind: str, payload: dict[str, Any], **fields: Any) -> Draft:
    """Draft an effect of the run."""
    return {"kind": kind, "payload": payload, "source_id": "coach", **fields}


def social(*drafts: Draft, world_id: str = "w", config: dict[str, Any] | None = None) -> list[Effect]:
    """Return the log of a run."""
    log = effects_of(drafts, world_id=world_id, ruleset="social_rl")
    if config is not None:
        log[0]["payload"]["config"] = config
    return log


def started(number: int, **payload: Any) -> Draft:
    """Draft: a round starts."""
    return draft("RoundStarted", {"round_number": number, **payload})


def ended(number: int, **payload: Any) -> Draft:
    """Draft: a round is over."""
    return draft("RoundEnded", {"round_number": number, **payload})


_AGENTS: Final = st.sampled_from([*AGENTS, "", 7])
_SHARES: Final = st.sampled_from([0.1, 0.2, 0.7, 1, 0.3])
_ODD: Final = st.dictionaries(
    st.sampled_from(["engagement", "theoretical_alignment", "cue", "content", "timestamp", "extra", "raw", "internal"]),
    GOOD_JSON,
    max_size=1,
)


def _with(made: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(lambda payload, odd: {**payload, **odd}, made, st.one_of(st.just({}), st.just({}), _ODD))


_MESSAGES: Final = st.builds(
    message,
    _AGENTS,
    internal=st.sampled_from([None, False, True]),
    timestamp=st.sampled_from([1.7e9, 5, -1e300, 1e300, "soon", True]),
    context_frame=st.sampled_from([None, context_frame()]),
)
_VECTORS: Final = st.builds(
    feedback, _AGENTS, engagement=_SHARES, theoretical_alignment=_SHARES, contribution_value=_SHARES | st.none()
)
_ADAPTATIONS: Final = st.one_of(
    st.builds(adaptation, _AGENTS, cue=st.sampled_from(["c", "d", 3]), intensity=_SHARES),
    st.builds(
        lambda agent, delta: {"agent_id": agent, "extra": {"deltas": {"engagement_delta": delta}}},
        _AGENTS,
        _SHARES | GOOD_JSON,
    ),
)
_METAS: Final[st.SearchStrategy[Draft]] = st.sampled_from(
    [
        {},
        {"meta": meta()},
        {"meta": {"timestamp": "soon", "seed": 1}, "extra": {"condition": "B", "seed": 7}},
        {"meta": 5, "extra": []},
        {"extra": {"condition": 1, "seed": 2**53 - 1, "agents": AGENTS}},
    ]
)
#: What happens; not all of it counts. None is the next round.
_HAPPENINGS: Final = st.one_of(
    st.none(),
    _with(_MESSAGES).map(lambda payload: draft("MessageEmitted", payload)),
    _with(_MESSAGES).map(lambda payload: draft("MessageEmitted", payload)),
    _with(_VECTORS).map(lambda payload: draft("FeedbackRecorded", payload)),
    _with(_ADAPTATIONS).map(lambda payload: draft("PolicyAdapted", payload, caused_by=1)),
    st.sampled_from(["all in all", None, ""]).map(lambda said: draft("RoundSynthesised", {"synthesis": said})),
    st.builds(started, st.integers(0, 3), meta=st.sampled_from([meta(), 1]), round_config=st.sampled_from([{}, None])),
    st.builds(ended, st.integers(0, 3), duration_seconds=st.sampled_from([1.5, 2, "x"])),
    _METAS.map(lambda payload: draft("ExperimentStarted", payload)),
    st.just(draft("PolicyStateRecorded", policy_state())),
    st.just(draft("ArtifactRecorded", {"name": "x.json", "content": 1})),
    st.just({"kind": "Shrug"}),
)


@st.composite
def social_logs(draw: st.DrawFn) -> list[Effect]:
    """Draw the log of a run in which rounds follow one another, mostly, and much happens."""
    drafts: list[Draft] = []
    number = 0
    for happening in draw(st.lists(_HAPPENINGS, max_size=25)):
        if happening is None:
            drafts += [ended(number)] if draw(st.booleans()) else []
            number += draw(st.sampled_from([1, 1, 2]))
            drafts.append(started(number))
        else:
            drafts.append(happening)
    return social(*drafts, config=draw(st.sampled_from([{}, {"agents": [ALICE]}])))
