"""The ledger over the whole line: real sources over the simulated node, time in hand, and the page that comes out."""

import itertools
import resource
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter.model.ledger import LedgerRules
from exporter.model.policy import PriceBook, PriceRule
from exporter.simulator.world import (
    GIB,
    ApiFault,
    KubeletFault,
    NvmlFault,
    SimBurst,
    SimDevice,
    SimMig,
    SimProcess,
    SimSample,
    World,
)
from tests.line import SimTime, a_line
from tests.page import Page
from tests.worlds import G0, G1, WHOLE, a_sim_pod, b0, cgroup, task_of

HELD = "gpu_container_held_seconds_total"
OWNED = "gpu_owner_held_seconds_total"
SECOND = 1_000_000
LOADED_SECONDS = 1_000
CYCLE_SECONDS = 5.0


def a_burst(pid: int, begin: float, end: float, **changes: Any) -> SimBurst:
    """Work in seconds after the line's beginning."""
    start_us, end_us = (round((LOADED_SECONDS + moment) * SECOND) for moment in (begin, end))
    return replace(SimBurst(pid=pid, start_us=start_us, end_us=end_us), **changes)


def a_gpu(*bursts: SimBurst, index: int = 0, pids: Iterable[int] = (4001,), **changes: Any) -> SimDevice:
    """A GPU with a scripted load that draws 100 W, and 300 W more while a kernel runs."""
    device = SimDevice(
        uuid=(G0, G1)[index],
        index=index,
        load=bursts,
        power=100_000,
        busy_power=300_000,
        processes=tuple(SimProcess(pid=pid, memory=GIB) for pid in pids),
    )
    return replace(device, **changes)


def shared(*bursts: SimBurst, sharers: int = 4, replicas: int = 4, **changes: Any) -> World:
    """G0 in replicas, of which some are taken: s-0 is PID 5000, and so on; G1 is nobody's."""
    ids = tuple(f"{G0}::{number}" for number in range(replicas))
    return World(
        devices=(a_gpu(*bursts, pids=range(5000, 5000 + sharers), **changes), SimDevice(uuid=G1, index=1)),
        tasks=tuple(task_of(5000 + number, 10 + number) for number in range(sharers)),
        pods=tuple(a_sim_pod(10 + number, f"s-{number}", ids[number]) for number in range(sharers)),
        allocatable={WHOLE: (*ids, G1)},
        namespaces={"team-red": {"labels": {"team": "red"}}},
    )


def held_by_pod(page: Page) -> dict[str, float]:
    """GPU-seconds by pod, all states."""
    return page.values(HELD, "pod")


async def test_whole_device_values_are_shared_and_never_copied(tmp_path: Path) -> None:
    """Busy 50, 20, 10 and 0 percent: seconds, energy and money of the sharers are parts of the device's (SHARE-02)."""
    bursts = tuple(
        a_burst(pid, begin + period, end + period)
        for period in range(0, 600, 10)
        for pid, begin, end in ((5000, 0.0, 5.0), (5001, 5.0, 7.0), (5002, 7.0, 8.0))
    )
    time = SimTime(tmp_path)
    prices = PriceBook(rules=(PriceRule(3.6, model="NVIDIA H100*"),))
    async with a_line(tmp_path / "node", shared(*bursts), sim_time=time, prices=prices) as line:
        await line.cycle()
        page = (await line.cycles(120))[-1]
    busy = page.values("gpu_container_busy_seconds_total", "pod")
    assert busy == pytest.approx({"s-0": 300, "s-1": 120, "s-2": 60, "s-3": 0}, abs=12)
    assert page.value("gpu_busy_seconds_total", uuid=G0) == pytest.approx(480, abs=2)
    assert len(page.series("gpu_utilization_ratio", uuid=G0)) == 1
    energy = page.values("gpu_container_energy_joules_total", "pod")
    drawn = (page.value("gpu_energy_joules_total", uuid=G0) or 0) - 5000 - 100 * LOADED_SECONDS
    assert drawn == pytest.approx(600 * 100 + 480 * 300, rel=0.01)
    assert sum(energy.values()) <= drawn
    assert energy["s-0"] / energy["s-1"] == pytest.approx(2.5, abs=0.3)
    money = page.values("gpu_owner_cost_total", "state")
    assert sum(money.values()) == pytest.approx(0.6)
    assert page.values("gpu_provisioned_cost_total", "uuid") == pytest.approx({G0: 0.6, G1: 0.6})


async def test_sharers_wait_for_each_other_and_are_idle_only_by_their_own_samples(tmp_path: Path) -> None:
    """A sharer's cycle is active or idle by its own use; the device at 0 is all idle; held time is by share."""
    time = SimTime(tmp_path)
    async with a_line(tmp_path / "node", shared(a_burst(5000, 0.0, 100.0)), sim_time=time) as line:
        await line.cycle()
        page = (await line.cycles(40))[-1]
    assert held_by_pod(page) == pytest.approx(dict.fromkeys(("s-0", "s-1", "s-2", "s-3"), 50.0))
    assert page.values(HELD, "state", pod="s-0") == pytest.approx(
        {"active": 25.0, "idle_held": 25.0, "idle_empty": 0, "unknown": 0}, abs=1.3
    )
    assert page.values(HELD, "state", pod="s-3") == pytest.approx(
        {"active": 0, "idle_held": 50.0, "idle_empty": 0, "unknown": 0}
    )


async def test_allocation_adds_up_to_the_devices_whatever_is_requested(tmp_path: Path) -> None:
    """Three of four replicas are taken, a GPU is free: shares and what is unallocated are two GPUs (SHARE-12)."""
    time = SimTime(tmp_path)
    async with a_line(tmp_path / "node", shared(sharers=3), sim_time=time) as line:
        await line.cycle()
        page = (await line.cycles(12))[-1]
    assert sum(held_by_pod(page).values()) == pytest.approx(45.0)
    assert page.values("gpu_unallocated_seconds_total", "reason") == pytest.approx({"fragment": 15.0, "free": 60.0})
    assert sum(page.values("gpu_provisioned_seconds_total", "uuid").values()) == pytest.approx(120.0)


def mig_uuid(number: int) -> str:
    """UUID of a MIG device."""
    return f"MIG-0a0a0a0a-2222-4222-8333-{number:012d}"


async def test_energy_of_a_card_in_mig_mode_is_drawn_once(tmp_path: Path) -> None:
    """Seven slices, three held, two with work: parts are at most the card's, the free slices' part is nobody's (SHARE-06)."""
    migs = tuple(SimMig(uuid=mig_uuid(number), gi=number, profile="1g.10gb") for number in range(7))
    bursts = tuple(a_burst(5000 + number, 0.0, 600.0, gi=number) for number in range(2))
    device = a_gpu(*bursts, pids=(), gpm=True, mig_mode=1, migs=migs, utilization=None)
    device = replace(device, processes=tuple(SimProcess(pid=5000 + number, memory=GIB, gi=number, ci=0) for number in range(2)))
    one_slice = "nvidia.com/mig-1g.10gb"
    world = World(
        devices=(device,),
        tasks=tuple(task_of(5000 + number, 10 + number) for number in range(2)),
        pods=tuple(a_sim_pod(10 + number, f"m-{number}", mig_uuid(number), resource=one_slice) for number in range(3)),
        allocatable={one_slice: tuple(mig.uuid for mig in migs)},
    )
    time = SimTime(tmp_path)
    async with a_line(tmp_path / "node", world, sim_time=time) as line:
        first = await line.cycle()
        page = (await line.cycles(24))[-1]
    assert len(page.series("gpu_power_watts")) == 1
    drawn = (page.value("gpu_energy_joules_total") or 0) - (first.value("gpu_energy_joules_total") or 0)
    energy = page.values("gpu_container_energy_joules_total", "pod")
    assert sum(energy.values()) == pytest.approx(drawn * 3 / 7, rel=0.05)
    assert energy["m-2"] == pytest.approx(0.0, abs=drawn * 0.05)
    nobodys = page.values("gpu_unattributed_energy_joules_total", "reason")
    assert nobodys["unallocated"] == pytest.approx(drawn * 4 / 7, rel=0.05)
    assert page.values("gpu_container_busy_seconds_total", "pod") == pytest.approx(
        {"m-0": 120 / 7, "m-1": 120 / 7, "m-2": 0}, abs=1
    )
    assert page.values("gpu_mig_busy_seconds_total", "gpu_instance_id")["0"] == pytest.approx(120, abs=5)
    assert page.value("gpu_busy_seconds_total") == pytest.approx(240 / 7, abs=1)
    assert page.value("gpu_allocated_ratio") == pytest.approx(3 / 7)


async def test_mps_server_owns_nothing_and_its_clients_are_unknown_rather_than_idle(tmp_path: Path) -> None:
    """The driver lists the server for its clients: 30 GiB are MPS', held time is unknown, nobody is billed (SHARE-04)."""
    world = shared(a_burst(7000, 0.0, 100.0), sharers=2, replicas=2)
    daemon = a_sim_pod(30, "mps-daemon", namespace="gpu-system")
    server = replace(task_of(7000, 30), comm="nvidia-cuda-mps-server")
    device = replace(world.devices[0], processes=(SimProcess(pid=7000, memory=30 * GIB),))
    world = replace(
        world,
        devices=(device,),
        tasks=(server,),
        pods=(*world.pods, daemon),
        node_labels={"nvidia.com/gpu.sharing-strategy": "mps"},
    )
    time = SimTime(tmp_path)
    async with a_line(tmp_path / "node", world, sim_time=time) as line:
        await line.cycle()
        page = (await line.cycles(12))[-1]
    assert page.values(HELD, "state") == pytest.approx({"unknown": 60.0, "active": 0, "idle_held": 0, "idle_empty": 0})
    assert page.values("gpu_unattributed_memory_bytes", "reason") == {"mps_server": 30 * GIB}
    assert page.values("gpu_unattributed_busy_seconds_total", "reason") == {"mps_server": pytest.approx(60, abs=1)}
    assert not [sample for sample in page.samples if sample.labels.get("namespace") == "gpu-system"]
    assert not page.series("gpu_container_last_active_timestamp_seconds")


async def test_two_exclusive_holders_are_billed_half_each_in_any_order(tmp_path: Path) -> None:
    """Neither is picked in silence; the sum is one GPU (SHARE-14)."""
    pods = (a_sim_pod(1, "a", G0), a_sim_pod(2, "b", G0))
    worlds = [World(devices=(a_gpu(pids=()),), pods=order, allocatable={WHOLE: (G0,)}) for order in (pods, pods[::-1])]
    time = SimTime(tmp_path)
    async with a_line(tmp_path / "node", worlds[0], sim_time=time) as line:
        page = await line.cycle()
        for world in worlds * 3:
            time.advance(CYCLE_SECONDS)
            page = await line.show(world)
    assert held_by_pod(page) == pytest.approx({"a": 15.0, "b": 15.0})
    assert page.value("gpu_exporter_conflicts", kind="two_holders") == 1


async def test_shares_of_processes_are_scaled_down_to_what_the_device_did(tmp_path: Path) -> None:
    """70 and 60 percent of a device at 90: 7 to 6, and together 90 (SHARE-08); the counters say the same."""
    world = shared(sharers=2, replicas=2)
    processes = (SimProcess(pid=5000, memory=GIB, sm=70), SimProcess(pid=5001, memory=GIB, sm=60))
    world = replace(world, devices=(SimDevice(uuid=G0, index=0, utilization=90, processes=processes),))
    time = SimTime(tmp_path)
    async with a_line(tmp_path / "node", world, sim_time=time) as line:
        await line.cycle()
        page = (await line.cycles(12))[-1]
    busy = page.values("gpu_container_busy_seconds_total", "pod")
    assert sum(busy.values()) == pytest.approx(0.9 * 60)
    assert busy["s-0"] / busy["s-1"] == pytest.approx(7 / 6)


@pytest.mark.parametrize("by_ring", [False, True])
async def test_absurd_utilisation_of_a_cycle_is_lost_and_not_busy_nor_idle(tmp_path: Path, by_ring: bool) -> None:
    """40, 4294967295, 40, 137, 40: two cycles are unknown, the others 40 percent; no series comes or goes (NVML-02)."""

    def world(cycle: int, percent: int) -> World:
        stamps = [round((LOADED_SECONDS + cycle * CYCLE_SECONDS + slot * 10 / 72) * SECOND) for slot in range(1, 37)]
        ring = tuple(SimSample(timestamp_us=stamp, percent=percent) for stamp in stamps) if by_ring else None
        device = replace(b0().devices[0], utilization=min(percent, 2**32 - 1), ring=ring)
        return replace(b0(), devices=(device, b0().devices[1]))

    time = SimTime(tmp_path)
    async with a_line(tmp_path / "node", world(-1, 40), sim_time=time) as line:
        await line.cycle()
        pages = []
        for cycle, percent in enumerate((40, 4294967295, 40, 137, 40), 1):
            line.node.show(world(cycle - 1, percent))
            time.advance(CYCLE_SECONDS)
            pages.append(await line.cycle())
    known = [page.value("gpu_utilization_ratio", uuid=G0) for page in pages]
    assert known == [pytest.approx(0.4), None, pytest.approx(0.4), None, pytest.approx(0.4)]
    last = pages[-1]
    assert last.value("gpu_busy_seconds_total", uuid=G0) == pytest.approx(6.0, abs=0.1)
    assert last.value("gpu_observed_seconds_total", uuid=G0) == pytest.approx(15.0, abs=0.1)
    assert last.values(HELD, "state", pod="train-0") == pytest.approx(
        {"active": 15.0, "unknown": 10.0, "idle_held": 0, "idle_empty": 0}, abs=0.1
    )
    rejected = [page.values("gpu_exporter_rejected_readings_total", "reason").get("out_of_range", 0.0) for page in pages]
    assert rejected[0] == 0
    assert rejected[1] < rejected[3] == rejected[4]


async def test_absurd_power_and_energy_never_become_use_or_money(tmp_path: Path) -> None:
    """Terawatts for a cycle, a counter that leaps, falls to 0 and comes back: growth stays below limit x time (NVML-14)."""
    base = b0().devices[0]
    joules = 5_000_000
    time = SimTime(tmp_path)
    totals, watts = [], []
    async with a_line(tmp_path / "node", b0(), sim_time=time, prices=PriceBook(default_per_gpu_hour=3.6)) as line:
        page = await line.cycle()
        for cycle in range(1, 13):
            joules += 210_000 * 5
            told = {3: 2**62 - 2, 5: 0, 7: joules * 50, 9: joules - 4_000_000}.get(cycle, joules)
            device = replace(base, energy=told, power=2**32 - 1 if cycle == 3 else 211_000)
            line.node.show(replace(b0(), devices=(device, b0().devices[1])))
            time.advance(CYCLE_SECONDS)
            page = await line.cycle()
            totals.append(page.value("gpu_energy_joules_total", uuid=G0) or 0.0)
            watts.append(page.value("gpu_power_watts", uuid=G0))
    assert watts[2] is None
    assert totals == sorted(totals)
    assert totals[-1] - 5000 == pytest.approx(12 * 5 * 210)
    assert max(later - earlier for earlier, later in itertools.pairwise(totals)) <= 2 * 5 * 700
    parts = page.values("gpu_container_energy_joules_total", "pod")["train-0"]
    assert parts <= totals[-1] - 5000
    assert sum(page.values("gpu_owner_cost_total", "state").values()) == pytest.approx(0.06)


async def test_driver_reload_goes_on_counting_and_parts_stay_below_the_whole(tmp_path: Path) -> None:
    """The driver's counter begins at 0 again: what was drawn since is drawn, and what was before the first look is nobody's."""
    base = b0().devices[0]
    time = SimTime(tmp_path)
    async with a_line(tmp_path / "node", b0(), sim_time=time) as line:
        page = await line.cycle()
        for energy in (6_000_000, 7_000_000, 400_000, 1_400_000, 2_400_000):
            line.node.show(replace(b0(), devices=(replace(base, energy=energy), b0().devices[1])))
            time.advance(CYCLE_SECONDS)
            page = await line.cycle()
    assert page.value("gpu_energy_joules_total", uuid=G0) == pytest.approx(7000 + 2400)
    parts = page.values("gpu_container_energy_joules_total", "uuid")[G0]
    nobodys = sum(page.values("gpu_unattributed_energy_joules_total", "reason", uuid=G0).values())
    assert parts + nobodys == pytest.approx(9400 - 5000)


async def test_lost_gpu_goes_on_being_provisioned_and_its_holder_is_unknown(tmp_path: Path) -> None:
    """The bill goes on, nobody is idle; a GPU that nobody holds is unhealthy meanwhile, not free."""
    time = SimTime(tmp_path)
    faults = tuple(NvmlFault(symbol="*", device=index, code=15) for index in (0, 1))
    async with a_line(tmp_path / "node", b0(), sim_time=time) as line:
        await line.cycle()
        await line.cycles(4)
        line.node.show(replace(b0(), nvml_faults=faults))
        page = (await line.cycles(6))[-1]
    assert page.values("gpu_provisioned_seconds_total", "uuid") == pytest.approx({G0: 50.0, G1: 50.0})
    assert page.values(HELD, "state") == pytest.approx({"active": 20.0, "unknown": 30.0, "idle_held": 0, "idle_empty": 0})
    assert page.values("gpu_unallocated_seconds_total", "reason", uuid=G1) == pytest.approx({"free": 20.0, "unhealthy": 30.0})
    assert page.value("gpu_observed_seconds_total", uuid=G0) == pytest.approx(20.0)


async def test_driver_that_is_away_books_nothing_and_its_series_end(tmp_path: Path) -> None:
    """The gap shows as coverage; owners stay as they are, and counting goes on where it was."""
    time = SimTime(tmp_path)
    away = (NvmlFault(symbol="nvmlDeviceGetCount_v2", code=9), NvmlFault(symbol="nvmlInitWithFlags", code=9))
    async with a_line(tmp_path / "node", b0(), sim_time=time) as line:
        await line.cycle()
        before = (await line.cycles(4))[-1]
        line.node.show(replace(b0(), nvml_faults=away))
        gap = (await line.cycles(20))[-1]
        line.node.show(b0())
        after = (await line.cycles(10))[-1]
    assert not gap.series("gpu_provisioned_seconds_total")
    assert not gap.series(HELD)
    assert gap.values(OWNED, "state") == before.values(OWNED, "state")
    provisioned = after.value("gpu_provisioned_seconds_total", uuid=G0) or 0.0
    assert 20.0 < provisioned < 70.0
    assert sum(after.values(HELD, "state").values()) == pytest.approx(provisioned)


@pytest.mark.parametrize("after", ["another holder", "nobody"])
async def test_time_in_which_the_exporter_stood_still_is_nobodys(tmp_path: Path, after: str) -> None:
    """Stopped for an hour: whoever is there at the end is not billed for it, nor is the GPU said to have been free."""
    time = SimTime(tmp_path)
    world = b0()
    fresh = replace(a_sim_pod(2, "fresh-0", G0, namespace="team-blue"), labels={"team": "blue"})
    pods, tasks = ((fresh,), (task_of(4001, 2),)) if after == "another holder" else ((), ())
    prices = PriceBook(default_per_gpu_hour=3.6)
    async with a_line(tmp_path / "node", world, sim_time=time, prices=prices) as line:
        await line.cycle()
        await line.cycles(2)
        time.advance(3600.0)
        await line.show(replace(world, pods=pods, tasks=tasks))
        page = (await line.cycles(2))[-1]
    expected = {"red": 10.0, "blue": 10.0} if after == "another holder" else {"red": 10.0}
    assert page.values(OWNED, "team") == pytest.approx(expected)
    assert page.value("gpu_provisioned_seconds_total", uuid=G0) == pytest.approx(20.0)
    assert sum(page.values("gpu_owner_cost_total", "team").values()) == pytest.approx(0.001 * sum(expected.values()))


async def test_late_cycle_is_one_all_the_same(tmp_path: Path) -> None:
    """Half a minute late under load: what the driver's samples do not reach back to is lost, and the time is booked."""
    time = SimTime(tmp_path)
    async with a_line(tmp_path / "node", b0(), sim_time=time) as line:
        await line.cycle()
        page = (await line.cycles(1, seconds=30.0))[-1]
    assert page.values(OWNED, "team") == pytest.approx({"red": 30.0})


async def test_energy_that_is_not_supported_for_a_moment_is_read_again(tmp_path: Path) -> None:
    """A driver does not unlearn a call: the counter goes on, and what was drawn meanwhile is nobody's."""
    time = SimTime(tmp_path)
    world = replace(b0(), devices=(a_gpu(), b0().devices[1]))
    fault = NvmlFault(symbol="nvmlDeviceGetTotalEnergyConsumption", device=0, code=3)
    async with a_line(tmp_path / "node", world, sim_time=time) as line:
        await line.cycle()
        before = (await line.cycles(1))[-1].value("gpu_energy_joules_total", uuid=G0) or 0.0
        line.node.show(replace(world, nvml_faults=(fault,)))
        await line.cycles(2)
        line.node.show(world)
        page = (await line.cycles(2))[-1]
    assert page.value("gpu_energy_joules_total", uuid=G0) == pytest.approx(before + 4 * CYCLE_SECONDS * 100)
    nobodys = page.value("gpu_unattributed_energy_joules_total", uuid=G0, reason="not_measured")
    assert nobodys == pytest.approx(2 * CYCLE_SECONDS * 100)


async def test_kubelet_that_is_away_for_long_makes_allocation_unknown_and_nobody_idle(tmp_path: Path) -> None:
    """Beyond max_age no source can say: neither held nor free, and nobody's use is unheld use for certain."""
    time = SimTime(tmp_path)
    away = replace(b0(), kubelet_faults=(KubeletFault(code="UNAVAILABLE"),))
    async with a_line(tmp_path / "node", b0(), sim_time=time, max_age_seconds=12.0) as line:
        await line.cycle()
        await line.cycles(2)
        line.node.show(away)
        await line.cycles(8)
        line.node.show(b0())
        page = (await line.cycles(2))[-1]
    assert page.values("gpu_provisioned_seconds_total", "uuid") == pytest.approx({G0: 60.0, G1: 60.0})
    unknown = page.values("gpu_allocation_unknown_seconds_total", "uuid")
    assert unknown == pytest.approx({G0: 30.0, G1: 30.0})
    assert sum(page.values(HELD, "state").values()) == pytest.approx(30.0)
    assert page.values("gpu_unallocated_seconds_total", "uuid")[G1] == pytest.approx(30.0)


async def test_api_that_is_away_for_an_hour_takes_no_owner_away(tmp_path: Path) -> None:
    """What was concluded of a pod is kept for as long as it holds its device: one pod, one series."""
    time = SimTime(tmp_path)
    async with a_line(tmp_path / "node", b0(), sim_time=time, max_age_seconds=30.0) as line:
        await line.cycle()
        await line.cycles(2)
        line.node.show(replace(b0(), api_faults=(ApiFault(path="/", status=503),)))
        page = (await line.cycles(120, seconds=30.0))[-1]
    assert {sample.labels["team"] for sample in page.series(OWNED)} == {"red"}
    assert len({tuple(sorted(sample.labels.items())) for sample in page.series(HELD, state="active")}) == 1
    assert sum(page.values(OWNED, "team").values()) == pytest.approx(10.0 + 3600.0)


async def test_thousand_pods_leave_a_page_and_a_memory_as_they_were(tmp_path: Path) -> None:
    """Each cycle a new pod and a new PID on G0: only who is there, and who has just ended, is on the page (STALE-05)."""

    def world(number: int) -> World:
        pod_uid = f"11111111-2222-4333-8444-{number:012d}"
        container = f"{number:064x}"
        pod = a_sim_pod(1, f"job-{number}", G0)
        pod = replace(pod, uid=pod_uid, containers=(replace(pod.containers[0], id=container),))
        task = replace(task_of(10_000 + number, 1), cgroup=(cgroup(pod_uid, container),))
        return replace(b0(), devices=(a_gpu(pids=(10_000 + number,)), b0().devices[1]), tasks=(task,), pods=(pod,))

    time = SimTime(tmp_path)
    rules = LedgerRules(birth_hold_seconds=0.0, ended_retention_seconds=20.0)
    sizes: list[int] = []
    before = 0
    async with a_line(tmp_path / "node", world(0), sim_time=time, rules=rules) as line:
        page = await line.cycle()
        for number in range(1000):
            line.node.show(world(number))
            await line.settled()
            time.advance(CYCLE_SECONDS)
            page = await line.cycle()
            line.pages.clear()
            sizes.append(len(page.samples))
            if number == 200:
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert {sample.labels["pod"] for sample in page.series("gpu_container_allocation_ratio")} == {"job-999"}
    assert {sample.labels["pod"] for sample in page.series(HELD)} == {f"job-{number}" for number in range(995, 1000)}
    assert sizes[10] == sizes[-1]
    assert grown_kib < 10 * 1024
    assert sum(page.values(OWNED, "state").values()) == pytest.approx(1000 * CYCLE_SECONDS)


async def test_label_that_is_changed_moves_the_bill_from_that_moment(tmp_path: Path) -> None:
    """A relabelled pod starts new series and rewrites nothing; the sum over owners is what was held."""
    time = SimTime(tmp_path)
    world = b0()
    moved = replace(world, pods=(replace(world.pods[0], labels={**world.pods[0].labels, "team": "blue"}),))
    async with a_line(tmp_path / "node", world, sim_time=time) as line:
        await line.cycle()
        await line.cycles(4)
        time.advance(CYCLE_SECONDS)
        await line.show(moved)
        page = (await line.cycles(3))[-1]
    assert page.values(OWNED, "team") == pytest.approx({"red": 20.0, "blue": 20.0})
    assert page.values(HELD, "team") == pytest.approx({"red": 20.0, "blue": 20.0})
    assert {sample.labels["team"] for sample in page.series("gpu_container_allocation_ratio")} == {"blue"}


async def test_last_active_tells_since_when_and_whether_ever(tmp_path: Path) -> None:
    """A burst of 0.3 s between two cycles is seen; a container that never worked is idle since it was first watched."""
    time = SimTime(tmp_path)
    world = b0()
    quiet = replace(world, devices=(a_gpu(a_burst(4001, 31.0, 31.3)), a_gpu(index=1, pids=())), pods=())
    started = replace(world.pods[0], start_time="2026-11-30T00:00:00Z")
    async with a_line(tmp_path / "node", quiet, sim_time=time) as line:
        await line.cycle()
        time.advance(CYCLE_SECONDS)
        first = await line.show(replace(quiet, pods=(started,)))
        pages = await line.cycles(8)
    began = first.value("gpu_container_last_active_timestamp_seconds") or 0.0
    assert [(page.value("gpu_container_last_active_timestamp_seconds") or 0.0) - began for page in pages] == pytest.approx(
        [0, 0, 0, 0, 0, 30, 30, 30]
    )
    assert pages[-1].value("gpu_pod_last_active_timestamp_seconds") == pages[-1].value(
        "gpu_container_last_active_timestamp_seconds"
    )
