"""The WebSocket of an agent: intents in; acknowledgements, observations and cancellations out.

- `worldledger_service.api.ws.messages`: the protocol ``worldledger.v1.json``: what may come in, how what goes out is
  written
- `worldledger_service.api.ws.connection`: one open socket
- `worldledger_service.api.ws.handshake`: the route, and what a socket is refused for
- `worldledger_service.api.ws.transport`: the layer below: uvicorn's, with limits for clients that do not behave
"""
