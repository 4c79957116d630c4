"""Chess as an OpenEnv environment at ``/openenv/chess``: another interface to the live games of the arena.

- `asking`: parsing requests: frames, resets and actions
- `episodes`: an episode, which is a live game and so a world: beginning, resuming, playing and observing it
- `sockets`: the WebSocket, which is all that the released clients use
- `routes`: the same over HTTP

Source: docs/reference/http.md, "OpenEnv"; the wire contract of the packages ``openenv-core`` and ``openenv``.
"""
