"""A projection of one's own: how many words each agent has said in each world."""

from worldledger_projections.base import Changes, Column, Projection, View, WorldProjection


class _World(WorldProjection):
    """The rows of one world, in memory."""

    def __init__(self, world_id, rows):
        self._world_id = world_id
        self._words = {agent_id: words for _, agent_id, words in rows}
        self._changed = set()

    def apply(self, effect):
        agent_id = effect["source_id"]
        words = len(str(effect["payload"].get("text", "")).split())
        self._words[agent_id] = self._words.get(agent_id, 0) + words
        self._changed.add(agent_id)

    def take_changes(self):
        rows = [(self._world_id, agent_id, self._words[agent_id]) for agent_id in self._changed]
        self._changed.clear()
        return Changes(upserts=rows)


class Words(Projection):
    """One row for each agent that has said something in a world."""

    name = "words"
    version = 1
    comment = "How many words each agent has said."
    columns = (
        Column("world_id", "text", "The name of the world."),
        Column("agent_id", "text", "The agent."),
        Column("words", "bigint", "How many words it has said."),
    )
    key = ("world_id", "agent_id")
    kinds = frozenset({"Speak"})
    views = (View("word_totals", "select world_id, sum(words)::bigint as words from words group by 1", "Of worlds."),)
    needs_rows = True

    def begin(self, world_id, rows, fold):
        """Go on from the rows that the world has."""
        return _World(world_id, rows)
