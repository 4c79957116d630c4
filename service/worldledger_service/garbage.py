"""Python's garbage collector, in processes that make very many objects at a time."""

from __future__ import annotations

import gc


def relax_gc(objects: int = 50_000) -> None:
    """Have the collector look only once so many more objects are there (see gc.set_threshold), from now on.

    A batch makes very many objects, none of which refer to each other in circles; looking through them took a fifth
    of the time of a rebuild, and a sixth of the writer's in an import of games. In the service all requests wait
    meanwhile: where agents came to a world of 1,000 agents, it looked through the views of those before them twice for
    each, up to 100 ms long.
    """
    gc.set_threshold(objects, 10, 10)
