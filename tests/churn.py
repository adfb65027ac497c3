"""A node on which pods come and go: whole GPUs, replicas and MIG instances, each pod with a process that works in bursts."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from exporter.simulator.world import GIB, SimBurst, SimContainer, SimDevice, SimMig, SimPod, SimProcess, SimTask, World
from tests.worlds import WHOLE, cgroup

SHORTEST_SECONDS, LONGEST_SECONDS = 20.0, 300.0
LONGEST_PAUSE_SECONDS = 40.0
LONGEST_FIRST_PAUSE_SECONDS = 5.0
PERIOD_US = 10_000_000
TEAMS = ("red", "blue", "green")


@dataclass(frozen=True, slots=True)
class Place:
    """Something that a pod can be given."""

    device: int
    resource: str
    device_id: str
    gi: int | None = None


@dataclass(slots=True)
class Tenant:
    """Who has a place, and until when; nobody, if there is no pod."""

    until: float
    pod: SimPod | None = None
    task: SimTask | None = None
    process: SimProcess | None = None


@dataclass(slots=True)
class Churn:
    """The node's course, a pure function of the seed and of the moments at which it is asked."""

    seed: int
    devices: tuple[SimDevice, ...]
    places: tuple[Place, ...]
    chance: random.Random = field(init=False)
    tenants: dict[Place, Tenant] = field(default_factory=dict)
    born: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def world(self, now: float) -> World | None:
        """The node at this moment, in seconds since it began; None: nothing has changed since it was last asked."""
        due = [place for place in self.places if place not in self.tenants or self.tenants[place].until <= now]
        for place in due:
            self.tenants[place] = self._next(place, now)
        return self._world() if due else None

    def _next(self, place: Place, now: float) -> Tenant:
        before = self.tenants.get(place)
        if before is None:
            return Tenant(now + self.chance.uniform(0.0, LONGEST_FIRST_PAUSE_SECONDS))
        if before.pod is not None:
            return Tenant(now + self.chance.uniform(0.0, LONGEST_PAUSE_SECONDS))
        self.born += 1
        number, team = self.born, self.chance.choice(TEAMS)
        uid = f"11111111-2222-4333-8444-{number:012d}"
        container = f"{number:064x}"
        return Tenant(
            until=now + self.chance.uniform(SHORTEST_SECONDS, LONGEST_SECONDS),
            pod=SimPod(
                name=f"job-{number}",
                namespace=f"team-{team}",
                uid=uid,
                containers=(
                    SimContainer(
                        id=container,
                        limits={place.resource: "1"},
                        devices=((place.resource, (place.device_id,)),),
                    ),
                ),
            ),
            task=SimTask(pid=10_000 + number, cgroup=(cgroup(uid, container),)),
            process=SimProcess(pid=10_000 + number, memory=2 * GIB, gi=place.gi, ci=None if place.gi is None else 0),
        )

    def _world(self) -> World:
        there = [(place, tenant) for place, tenant in self.tenants.items() if tenant.pod and tenant.task and tenant.process]
        allocatable: dict[str, tuple[str, ...]] = {}
        for place in self.places:
            allocatable[place.resource] = (*allocatable.get(place.resource, ()), place.device_id)
        return World(
            devices=tuple(self._device(device, there) for device in self.devices),
            pods=tuple(tenant.pod for _, tenant in there if tenant.pod),
            tasks=tuple(tenant.task for _, tenant in there if tenant.task),
            allocatable=allocatable,
            namespaces={f"team-{team}": {"labels": {"team": team, "cost-center": f"cc-{team}"}} for team in TEAMS},
            node_labels={"karpenter.sh/capacity-type": "on-demand"},
        )

    def _device(self, device: SimDevice, there: list[tuple[Place, Tenant]]) -> SimDevice:
        """Every process works for some seconds of each ten, from a second of its own on."""
        here = [(place, tenant.process) for place, tenant in there if place.device == device.index and tenant.process]
        bursts = [
            SimBurst(
                pid=process.pid,
                start_us=process.pid * 1_300_000 % 5_000_000,
                end_us=process.pid * 1_300_000 % 5_000_000 + (process.pid % 4 + 1) * 1_000_000,
                gi=place.gi,
            )
            for place, process in here
        ]
        return replace(device, processes=tuple(process for _, process in here), load=tuple(bursts), load_period_us=PERIOD_US)


def a_churning_node(seed: int, *, whole: int = 2, replicas: Mapping[int, int] | None = None) -> Churn:
    """So many whole GPUs, one in replicas, and one in MIG mode with two instances that leave two slices over."""
    devices: list[SimDevice] = []
    places: list[Place] = []
    for index in range(whole):
        devices.append(_gpu(index))
        places.append(Place(index, WHOLE, devices[-1].uuid))
    for index, count in (replicas or {whole: 4}).items():
        devices.append(_gpu(index))
        places += [Place(index, WHOLE, f"{devices[-1].uuid}::{replica}") for replica in range(count)]
    index = len(devices)
    migs = tuple(
        SimMig(
            uuid=f"MIG-0a0a0a0a-2222-4222-8333-{gi:012d}",
            gi=gi,
            profile=f"{size}g.{size * 10}gb",
            compute_slices=size,
            gpu_slices=size,
        )
        for gi, size in ((1, 3), (2, 2))
    )
    devices.append(replace(_gpu(index), mig_mode=1, migs=migs, utilization=None))
    places += [Place(index, f"nvidia.com/mig-{mig.profile}", mig.uuid, mig.gi) for mig in migs]
    return Churn(seed, tuple(devices), tuple(places))


def _gpu(index: int) -> SimDevice:
    return SimDevice(uuid=f"GPU-0a0a0a0a-1111-4222-8333-{index:012d}", index=index, gpm=True, busy_power=300_000, power=80_000)
