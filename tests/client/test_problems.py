"""An error that crosses the wire is the same error on the other side."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import httpx2
import orjson
import pytest
from worldledger_recorder.rules import NotRecordedError
from worldledger_service.api.problems import enclosed_problem, encode
from worldledger_simulation.rules.sections import InvalidSimulationConfigError
from worldledger_social_rl.documents import InvalidRunError

from worldledger import errors
from worldledger.client import RemoteError, ServiceUnavailableError
from worldledger.client.transport import BlockingTransport, Transport, error_of, error_of_answer
from worldledger.errors import RecoveryAction, SimulationError
from worldledger.kinds import parts

_INTENT = {"kind": "Move", "req_id": "r1", "agent_id": "alice", "payload": {"to": [0, 0]}, "context_seq": 7}
_EFFECT = {"global_seq": 9, "kind": "Move", "source_id": "bob", "payload": {}}

#: One of each class that a caller of the service may meet, with whatever it can carry.
SAMPLES: list[SimulationError] = [
    SimulationError("something", what="ever"),
    errors.BackpressureError("alice", "defer"),
    errors.BackpressureError("alice", "shed_oldest"),
    errors.CircuitBreakerOpenError(3.5),
    errors.DeadlineExceededError("r1", 250.0),
    errors.EffectNotFoundError("no such effect", head_seq=3),
    errors.EffectTooLargeError("too large", "$.payload", 4),
    errors.ExtraMissingError.of("pyarrow", "analytics"),
    errors.FoldError("cannot be folded", world_id="town", global_seq=5),
    errors.IllegalEffectError("not so", "$.payload.to", rule="castling"),
    errors.IllegalEffectError("not so", "$.payload.to", 2, rule="castling"),
    errors.IntentConflictError(_INTENT, [_EFFECT], "it stands elsewhere"),
    errors.IntentRefusedError(_INTENT, "the validator says no"),
    errors.InvalidConfigError("no such setting", path="$.orchestrator"),
    errors.InvalidEffectError("a draft is an object"),
    errors.InvalidIntentError("a position is a list", "$.payload.to"),
    errors.InvalidIntentError("a position is a list", "$.payload.to", 3),
    errors.InvalidNameError("no name"),
    errors.InvalidPolicyError("unknown setting", "$.policy.config.x"),
    errors.MomentNotFoundError("no such moment", head_seq=3),
    errors.OverloadedError("too much"),
    errors.PermissionDeniedError("alice", "intent:move"),
    errors.PolicyFailedError("alice", "KeyError: height"),
    errors.QueryRefusedError("no such view", sqlstate="42P01", position=15, line=1, column=15, hint="see the list"),
    errors.QueryTimeoutError(30.0),
    errors.QueueClosedError(),
    errors.QuotaExceededError("alice", "tokens", 100),
    errors.QuotaExceededError("alice", "intents", 100, 1.25),
    errors.RateLimitedError("too often", limit=100, window_s=60, retry_after_s=0.6),
    errors.RequestConflictError("used before", req_id="r1", global_seq=3),
    errors.ReservedKindError("the service's own", "$.kind"),
    errors.SimTimeOrderError("backwards", expected_min=2.0, sim_time=1.0),
    errors.StaleContextError("r1", 10, 7),
    errors.StartingError("the service is starting"),
    errors.TamperedError("does not hold", world_id="town", global_seq=3, what="checksum"),
    errors.TimeAuthorityError("not yours", authority="unity"),
    errors.TimeAuthorityHeldError("another has it", time_authority="unity"),
    errors.AuthoritySilentError("silent", time_authority="unity", last_tick_seq=7, reason="no_tick"),
    errors.TooManyAgentsError("town", 3),
    errors.UnknownAgentError("bob", "town"),
    errors.UnknownGenerationError("bob", "r1"),
    errors.AgentLeasedError("bob", "host/7", 12.5),
    errors.UnknownQueryError("x", ["y"]),
    errors.UnknownRulesetError("no such ruleset", known=["sandbox"]),
    errors.UnregisteredPolicyError("no such policy", name="x", known=["default 1"]),
    errors.ValidatorError("it failed", req_id="r1", agent_id="alice"),
    errors.WorldExistsError("is there", world_id="town"),
    errors.ParentMissingError("goes on from what is not here", world_id="town", parent="city", global_seq=7),
    errors.ReadOnlyWorldError("is a beginning alone", world_id="town", head_seq=7),
    errors.RerunConflictError("was written to", world_id="town", global_seq=7),
    errors.NotComparableError("are of different kinds", rulesets=["chess", "sandbox"]),
    errors.WorldNotFoundError("is not there", world_id="town"),
    errors.InvalidDefinitionError([errors.Problem(("gold",), "is too much"), errors.Problem((), "is wrong")]),
    errors.CircularSchemaError([errors.Problem(("town",), "contains itself")], "it goes round"),
    NotRecordedError("is of another ruleset", ruleset="sandbox"),
    InvalidRunError([{"file": "round1_social_rl.json", "path": "$.messages[0].role", "message": "is not so"}]),
    InvalidSimulationConfigError([errors.Problem(("agents",), "there are none", "a.yaml", 3, 1)]),
]


def _over_the_wire(error: SimulationError) -> SimulationError:
    problem = orjson.loads(encode(enclosed_problem(error, "/v1/worlds/town")))
    return error_of(problem)


def _known(error: SimulationError) -> dict[str, Any]:
    """Return the attributes that cross the wire: of an intent and of effects only what names them does."""
    known = dict(vars(error))
    if "intent" in known:
        known["intent"] = {name: known["intent"].get(name) for name in ("kind", "req_id", "agent_id")}
    if "conflicting_effects" in known:
        known["conflicting_effects"] = known["details"]["conflicting_effects"]
    return known


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: f"{type(error).__name__}-{len(error.details)}")
def test_an_error_is_the_same_on_the_other_side(error: SimulationError) -> None:
    """Class, message, attributes, recovery and details are what they were in the service."""
    found = _over_the_wire(error)
    assert type(found) is type(error)
    assert (found.code, str(found), found.recovery) == (error.code, str(error), error.recovery)
    wanted, got = _known(error), _known(found)
    seconds = got["details"].pop("retry_after_s", None)  # the service says when to come again, also by its own table
    wanted["details"].pop("retry_after_s", None)
    if getattr(error, "retry_after_s", None) is not None:
        assert seconds == wanted.pop("retry_after_s")
        got.pop("retry_after_s")
    else:
        got.pop("retry_after_s", None)
        wanted.pop("retry_after_s", None)
    assert got == wanted


def test_every_class_of_the_tree_is_tried() -> None:
    """There is a sample of every error that may come over the wire."""
    alone = {
        "EmbeddedServerError",
        "FileRefusedError",
        "InvalidKindError",
        "SchemaVersionError",
        "StoreUnavailableError",
    }
    beside = {"RecoveryAction", "Problem", "dotted"}
    of_kinds = {each.__name__ for classes in parts("errors").values() for each in classes}
    named = (set(errors.__all__) | of_kinds) - beside - alone
    assert {type(error).__name__ for error in SAMPLES} == named


async def test_what_is_for_the_operator_keeps_its_class() -> None:
    """The database's absence is told without its address, and whether the outcome is known."""
    error = errors.StoreUnavailableError("postgres at 10.0.0.7 is away", outcome="unknown", host="10.0.0.7")
    found = _over_the_wire(error)
    assert type(found) is errors.StoreUnavailableError
    assert "10.0.0.7" not in str(found)
    assert found.details["outcome"] == "unknown"
    assert found.recovery is RecoveryAction.RETRY_WITH_DELAY


def test_a_position_ahead_is_a_moment_that_is_not_there() -> None:
    """What HTTP calls a position to go on from is what an orchestrator calls a moment."""
    found = error_of({"code": "position_ahead", "detail": "after_seq: beyond the head", "head_seq": 3, "status": 409})
    assert type(found) is errors.MomentNotFoundError
    assert found.details == {"head_seq": 3}


@pytest.mark.parametrize(
    "problem",
    [
        {"code": "of_a_later_version", "detail": "what?", "fact": 1, "recovery": "sing"},
        {"code": "stale_context", "detail": "without its members"},
        {"code": ["no", "text"], "detail": None},
        {},
    ],
)
def test_whatever_comes_is_an_error(problem: dict[str, Any]) -> None:
    """A problem that this version does not know, or that is not whole, still becomes an error of ours."""
    found = error_of(problem)
    assert isinstance(found, SimulationError)
    assert isinstance(found.code, str)
    assert isinstance(found.recovery, RecoveryAction)
    assert found.details == {name: value for name, value in problem.items() if name == "fact"}


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (502, None, ServiceUnavailableError),
        (503, "<html>", ServiceUnavailableError),
        (504, {}, ServiceUnavailableError),
        (500, None, RemoteError),
        (404, {"message": "nginx"}, RemoteError),
        (409, {"code": "world_exists", "detail": "is there"}, errors.WorldExistsError),
    ],
)
def test_answers_of_others_are_told_apart(status: int, body: object, expected: type[SimulationError]) -> None:
    """What stands between client and service may answer too: then the status says what that means."""
    found = error_of_answer(status, body, "http://town.example")
    assert type(found) is expected
    if expected is not errors.WorldExistsError:
        assert "http://town.example" in str(found)
    if expected is RemoteError:
        assert found.code == f"http_{status}"
    assert math.isfinite(status)


@pytest.mark.parametrize(("url", "checked"), [("https://town.example", True), ("HTTPS://a", True), ("http://a", False)])
def test_certificates_are_checked_where_there_are_any(url: str, checked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over TLS both clients check the service's certificate; without it they load nothing to check one by."""
    told: list[object] = []
    for client in ("AsyncClient", "Client"):
        monkeypatch.setattr(httpx2, client, lambda **settings: told.append(settings["verify"]))
    for transport in (Transport, BlockingTransport):
        transport(url, timeout=1, patience=1)
    assert told == [checked, checked]


async def test_a_client_that_is_closed_while_it_waits_says_so() -> None:
    """Its next attempt is none: what it would send goes nowhere."""
    transport = Transport("http://127.0.0.1:1", timeout=1.0, patience=30.0)
    tried = asyncio.Event()

    async def attempt() -> None:
        if transport.closed:
            raise RuntimeError("sent by a closed client")
        tried.set()
        raise httpx2.ConnectError("refused")

    calling = asyncio.create_task(transport._persist(attempt, again=True))
    await tried.wait()
    await transport.close()
    with pytest.raises(ServiceUnavailableError, match="is closed"):
        await calling
