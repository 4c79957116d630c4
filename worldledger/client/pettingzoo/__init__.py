"""Environments of PettingZoo, played in worlds of a service. They need the extra ``pettingzoo``.

- `worldledger.client.pettingzoo.chess_env`: a game of chess
"""
