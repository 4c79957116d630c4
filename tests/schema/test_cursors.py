"""The agents' cursors, as they are kept in the database."""

from __future__ import annotations

from worldledger_service.store import Store


async def test_a_cursor_never_goes_back(database_url: str) -> None:
    """Of two writes of a cursor the higher view_seq stays, whichever comes last."""
    async with Store.open(database_url) as store:
        await store.cursors.move("w", {"alice": 7, "bob": 2})
        await store.cursors.move("w", {"alice": 5, "bob": 3})
        assert await store.cursors.read("w", ["alice", "bob", "nobody", "\0"]) == {"alice": 7, "bob": 3}
