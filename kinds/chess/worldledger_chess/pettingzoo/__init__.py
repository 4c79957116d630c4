"""Environments of PettingZoo, played in worlds of a service. They need the extra ``pettingzoo``.

- `worldledger_chess.pettingzoo.chess_env`: a game of chess
"""
