"""Chess for the clients of OpenEnv: frames, episodes, sockets, and the released clients themselves."""
