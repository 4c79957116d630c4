"""Chess as an OpenEnv environment, mounted at ``/openenv/chess``: another door to the live games of the arena.

- `asking`: what a client may ask for: frames, resets and actions
- `episodes`: an episode, which is a live game and so a world: begun, resumed, played, told
- `sockets`: the WebSocket, which is all that the released clients use
- `routes`: the same over HTTP

Source: docs/reference/http.md, "OpenEnv"; the wire contract of the packages ``openenv-core`` and ``openenv``.
"""
