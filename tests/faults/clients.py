"""A program: callers that append over HTTP without end, try again whatever happens, and note what they were told.

``python clients.py PORT FOLDER WORLD…`` writes one line of JSON to FOLDER/acks for every acknowledged effect, and to
FOLDER/refused for anything that no fault explains. It ends, once every caller has its answer, when FOLDER/stop is
there. It stands in a process of its own, which nobody kills.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

CALLERS = 16


class Connection:
    """A connection to the service, made anew whenever it was lost."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Return status and body of the answer. Raises OSError or EOFError when there is none."""
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._streams
            head = f"POST {path} HTTP/1.1\r\nhost: w\r\ncontent-type: application/json\r\n"
            writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
            length = next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))
            return int(lines[0].split()[1]), await reader.readexactly(length)
        except BaseException:
            if self._streams is not None:
                self._streams[1].transport.abort()
                self._streams = None
            raise


async def call(connection: Connection, path: str, drafts: list[dict[str, Any]], refused: int) -> list[dict[str, Any]]:
    """Send a list until it is answered; return the receipts."""
    body = json.dumps(drafts if len(drafts) > 1 else drafts[0]).encode()
    while True:
        try:
            status, answer = await connection.post(path, body)
        except (OSError, EOFError):
            status, answer = 503, b""
        if status in {200, 201}:
            found = json.loads(answer)
            receipts: list[dict[str, Any]] = found["receipts"] if len(drafts) > 1 else [found]
            return receipts
        if status != 503:
            os.write(refused, answer + b"\n")
        await asyncio.sleep(0.05)


async def caller(number: int, port: int, world: str, folder: Path, acks: int, refused: int) -> None:
    """Append without end: mostly one effect, sometimes a list."""
    connection = Connection(port)
    count = 0
    while not (folder / "stop").exists():
        size = 3 if count % 7 == 0 else 1
        drafts = [
            {
                "kind": "Said",
                "payload": {"by": number, "n": count + at},
                "source_id": f"c{number}",
                "schema_version": "1.0.0",
                "req_id": f"{number}-{count + at}",
            }
            for at in range(size)
        ]
        count += size
        receipts = await call(connection, f"/v1/worlds/{world}/effects", drafts, refused)
        told = [
            {"world": world, "req_id": draft["req_id"], **receipt}
            for draft, receipt in zip(drafts, receipts, strict=True)
        ]
        os.write(acks, "".join(json.dumps(one) + "\n" for one in told).encode())


async def main(port: int, folder: Path, worlds: list[str]) -> None:
    """Run all callers until they are told to stop."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    acks, refused = (os.open(folder / name, flags, 0o644) for name in ("acks", "refused"))
    await asyncio.gather(
        *(caller(number, port, worlds[number % len(worlds)], folder, acks, refused) for number in range(CALLERS))
    )


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
