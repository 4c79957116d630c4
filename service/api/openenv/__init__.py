"""Chess as an OpenEnv environment, mounted at ``/openenv/chess``: another door to the live games of the arena.

- `service.api.openenv.asking`: what a client may ask for: frames, resets and actions
- `service.api.openenv.episodes`: an episode, which is a live game and so a world: begun, resumed, played, told
- `service.api.openenv.sockets`: the WebSocket, which is all that the released clients use
- `service.api.openenv.routes`: the same over HTTP

Source: seeds/chess_openenv.md, "Example Data Flows"; the wire contract of the packages ``openenv-core`` and
``openenv``.
"""
