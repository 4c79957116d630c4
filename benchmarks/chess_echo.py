"""A server that answers what it is sent: ``python -m benchmarks.chess_echo PORT``."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import uvicorn
from fastapi import Body, FastAPI

app = FastAPI()


@app.get("/readyz")
async def readyz() -> dict[str, str]:
    """Say that it is there."""
    return {}


@app.post("/echo")
async def echo(body: Annotated[Any, Body()]) -> Any:
    """Answer."""
    return body


if __name__ == "__main__":
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        log_level="error",
        access_log=False,
        loop="uvloop",
        http="httptools",
    )
