"""READ THIS FIRST. One cycle: take one snapshot, attribute it, account for it, save and publish it.

A snapshot has two phases: devices, holdings and pods first; then /proc for the PIDs that NVML named, and owners and
namespaces for the pods that turned out to have to do with a GPU. The sources do not know each other; what one of them
names reaches the next one through here.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from exporter.accounting.activity import judge
from exporter.accounting.health import source_health
from exporter.accounting.ledger import Change, account
from exporter.accounting.saving import STATE_FILE, count_saving, standing_still
from exporter.attribution.join import attribute
from exporter.attribution.wanted import gpu_pods, namespaces_wanted, owners_wanted, pids_wanted
from exporter.edge.ports import (
    HoldingsSource,
    LedgerStore,
    NamespaceSource,
    NodeSource,
    NvmlSource,
    OwnerSource,
    PodsSource,
    ProcessSource,
)
from exporter.model.attribution import Attribution
from exporter.model.ledger import Ledger, LedgerRules
from exporter.model.policy import OwnershipPolicy
from exporter.model.published import Build, Published
from exporter.model.reading import Fresh, Missing, MissingReason, Observed, Reading
from exporter.model.snapshot import Snapshot

T = TypeVar("T")

FIRST_ANSWER_SECONDS, FIRST_ANSWER_LOOKS = 3.0, 150
"""How long the first cycle waits for the first list of pods."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything that a cycle reads."""

    nvml: NvmlSource
    pod_resources: HoldingsSource
    pods: PodsSource
    node: NodeSource
    procfs: ProcessSource
    owners: OwnerSource
    namespaces: NamespaceSource


@dataclass(frozen=True, slots=True)
class Clock:
    """Where the time comes from; a test, or a benchmark that compresses time, brings its own."""

    monotonic: Callable[[], float] = time.monotonic
    """Seconds since some moment; never goes back."""
    wall: Callable[[], float] = time.time
    """Unix time in seconds."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a cycle needs to know beside its sources."""

    node: str
    build: Build
    policy: OwnershipPolicy
    interval_seconds: float = 5.0
    max_age_seconds: float = 60.0
    """How long the last good holdings and metadata are used. Measured values never are."""
    ledger: LedgerRules = field(default_factory=LedgerRules)
    clock: Clock = field(default_factory=Clock)


async def run_cycle(sources: Sources, settings: Settings, previous: Published) -> Published:
    """Take one snapshot, attribute it, account for it, publish it."""
    started = time.monotonic()
    snapshot = await take_snapshot(sources, settings, previous.snapshot)
    health = source_health(snapshot)
    attribution = judge(await _attributed(snapshot, settings, previous), settings.ledger.active_above_ratio)
    change = Change(previous.snapshot, snapshot, attribution, health, time.monotonic() - started)
    ledger = account(previous.ledger, change, settings.ledger)
    return Published(
        generation=previous.generation + 1,
        snapshot=snapshot,
        attribution=attribution,
        ledger=ledger,
        build=settings.build,
        interval_seconds=settings.interval_seconds,
        sources=health,
    )


async def _attributed(snapshot: Snapshot, settings: Settings, previous: Published) -> Attribution:
    """The join, beside the event loop: with very many pods it takes its time, and probes and scrapes must not wait."""
    before = previous.attribution.recollection
    return await asyncio.to_thread(attribute, snapshot, settings.policy, before, max_age_seconds=settings.max_age_seconds)


async def take_snapshot(sources: Sources, settings: Settings, previous: Snapshot) -> Snapshot:
    """Read every source once: first those that stand alone, then those that are asked for what the first named."""
    pods_changed = sources.pods.generation != previous.pod_generation
    (nvml, nvml_seconds), (holdings, holdings_seconds), (node_meta, node_seconds) = await asyncio.gather(
        _timed(sources.nvml.read()),
        _timed(sources.pod_resources.read(refresh=pods_changed)),
        _timed(sources.node.read()),
    )
    pods_reading = sources.pods.read()
    now = settings.clock.monotonic()
    keep = Keeper(now, settings.max_age_seconds)
    measured = keep.measured(nvml, nvml_seconds)
    held = keep.metadata(holdings, previous.pod_resources, holdings_seconds)
    pods = keep.metadata(pods_reading, previous.pods, None)

    processes, processes_seconds = await _timed(sources.procfs.read(pids_wanted(measured.value)))
    seen = keep.measured(processes, processes_seconds)
    concerned = await asyncio.to_thread(gpu_pods, measured.value, held.value, pods.value, seen.value)
    # Namespaces are few and name most teams: they are not kept waiting behind owners, of which anybody can make up many.
    namespaces, namespaces_seconds = await _timed(sources.namespaces.read(namespaces_wanted(concerned)))
    owners, owners_seconds = await _timed(sources.owners.read(owners_wanted(concerned)))
    return Snapshot(
        node=settings.node,
        taken_at=now,
        timestamp_seconds=settings.clock.wall(),
        pod_generation=sources.pods.generation,
        nvml=measured,
        pod_resources=held,
        pods=pods,
        node_meta=keep.metadata(node_meta, previous.node_meta, node_seconds),
        procfs=seen,
        owners=keep.metadata(owners, previous.owners, owners_seconds),
        namespaces=keep.metadata(namespaces, previous.namespaces, namespaces_seconds),
    )


@dataclass(frozen=True, slots=True)
class Keeper:
    """Decides what of a source this cycle may use."""

    now: float
    max_age_seconds: float

    def measured(self, reading: Reading[T], seconds: float | None) -> Observed[T]:
        """Measured values count in the cycle in which they were measured, and in no other."""
        if isinstance(reading, Fresh):
            return Observed(usable=reading, missing=None, duration_seconds=seconds)
        return Observed(usable=None, missing=reading, duration_seconds=seconds)

    def metadata(self, reading: Reading[T], previous: Observed[T], seconds: float | None) -> Observed[T]:
        """Holdings and metadata stay usable until the last good answer is older than `max_age_seconds`."""
        if isinstance(reading, Fresh):
            return Observed(usable=reading, missing=None, duration_seconds=seconds)
        kept = previous.usable
        if kept is not None and self.now - kept.taken_at > self.max_age_seconds:
            kept = None
        return Observed(usable=kept, missing=reading, duration_seconds=seconds)


async def _timed(read: Awaitable[Reading[T]]) -> tuple[Reading[T], float]:
    started = time.monotonic()
    reading = await read
    return reading, time.monotonic() - started


async def save(store: LedgerStore, outcome: Published) -> tuple[Published, Published]:
    """Save what was counted before anybody can see it, so that no restart undoes what was scraped.

    Returns:
        What the next cycle goes on from, and what is published: the same, unless the ledger could not be saved.
    """
    started = time.monotonic()
    saved = await store.save(outcome.ledger)
    if store.health is None:
        return outcome, outcome
    ledger = count_saving(outcome.ledger, store.health, time.monotonic() - started, outcome.snapshot.timestamp_seconds)
    outcome = replace(outcome, ledger=ledger, sources={**outcome.sources, STATE_FILE: store.health})
    return outcome, replace(outcome, ledger=standing_still(ledger, saved))


def beginning(settings: Settings, ledger: Ledger) -> Published:
    """What there is before the first cycle: nothing is known, and nothing is counted but what an earlier run has counted."""
    now = settings.clock.monotonic()
    never: Observed[Any] = Observed(usable=None, missing=Missing(MissingReason.STARTING, now))
    snapshot = Snapshot(
        node=settings.node,
        taken_at=now,
        timestamp_seconds=settings.clock.wall(),
        nvml=never,
        pod_resources=never,
        pods=never,
        node_meta=never,
        procfs=never,
        owners=never,
        namespaces=never,
    )
    return Published(0, snapshot, Attribution(), ledger, settings.build, settings.interval_seconds)


async def run(
    sources: Sources, settings: Settings, store: LedgerStore, ledger: Ledger, publish: Callable[[Published], None]
) -> None:
    """Run a cycle every interval until cancelled; a cycle that overruns skips beats and never piles up.

    Args:
        sources: What is read.
        settings: How.
        store: Where what is counted is saved, before it is published.
        ledger: What an earlier run has counted.
        publish: Hands the outcome to those who show it.
    """
    outcome = beginning(settings, ledger)
    await _first_answer(sources.pods)
    beat = time.monotonic()
    while True:
        outcome = await run_cycle(sources, settings, outcome)
        outcome, published = await save(store, outcome)
        publish(published)
        beat = max(beat + settings.interval_seconds, time.monotonic())
        await asyncio.sleep(beat - time.monotonic())


async def _first_answer(pods: PodsSource) -> None:
    """Wait a moment for the pods: an owner unknown only because we asked too early would leave a second series behind."""
    for _ in range(FIRST_ANSWER_LOOKS):
        reading = pods.read()
        if not (isinstance(reading, Missing) and reading.reason is MissingReason.STARTING):
            return
        await asyncio.sleep(FIRST_ANSWER_SECONDS / FIRST_ANSWER_LOOKS)
