"""Worlds of a service, and the interface that they share with worlds of this process.

- `Client`: a world over HTTP and WebSocket, with the methods of `worldledger_service.runtime.Orchestrator`
- `World`, `Agent`: the interface of both, for programs that run with either
- `Frame`, `Question`: a table of the service, or an answer to a question in SQL, as Arrow or as a dataframe
- `RLFacade`, `MessageFacade`: two ways to live in a World, step by step or by messages
"""

from worldledger.client.client import Client, Question
from worldledger.client.facades import MessageFacade, MessageSubscription, RLFacade, StepCancelledError
from worldledger.client.frames import Frame
from worldledger.client.protocol import Agent, Log, Observations, Receipt, World
from worldledger.client.transport import RemoteError, ServiceUnavailableError
from worldledger.client.world import RemoteHandle, RemoteReceipt, RemoteSubscription, RemoteWorld

__all__ = [
    "Agent",
    "Client",
    "Frame",
    "Log",
    "MessageFacade",
    "MessageSubscription",
    "Observations",
    "Question",
    "RLFacade",
    "Receipt",
    "RemoteError",
    "RemoteHandle",
    "RemoteReceipt",
    "RemoteSubscription",
    "RemoteWorld",
    "ServiceUnavailableError",
    "StepCancelledError",
    "World",
]
