"""Agents: delivery, throughput, ticks, interruption, views and memory."""

from __future__ import annotations

from collections.abc import Collection

from worldledger_service.store import Store

from benchmarks import (
    agents_delivery,
    agents_interruption,
    agents_memory,
    agents_throughput,
    agents_ticks,
    agents_views,
)
from benchmarks.agents_town import serving
from benchmarks.harness import Report

PARTS = ("delivery", "interruption", "sockets", "throughput", "ticks", "views", "memory")


async def run(report: Report, url: str, store: Store, parts: Collection[str] = PARTS) -> None:
    """Measure these parts, on a database that has nothing else."""
    if {"delivery", "interruption", "sockets"} & set(parts):
        async with serving(url, 2) as servers:
            # Before the projections of what delivery writes have to be fed: that would take the cores away.
            if "interruption" in parts:
                await agents_interruption.run(report, servers)
            if "delivery" in parts:
                await agents_delivery.run(report, store, url, servers)
            if "sockets" in parts:
                await agents_throughput.run_by_socket(report, url, servers[0])
    if "throughput" in parts:
        await agents_throughput.run(report, store, url)
    if "ticks" in parts:
        await agents_ticks.run(report, url)
    if "views" in parts:
        agents_views.run(report)
    if "memory" in parts:
        await agents_memory.run(report, url)
