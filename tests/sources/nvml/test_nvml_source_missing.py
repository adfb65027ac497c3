"""NVML as a whole is not there: why, when it is asked again, and that it comes back."""

import logging
import os
from pathlib import Path

import pynvml
import pytest

from exporter.model.device import DeviceTrouble
from exporter.model.reading import Fresh, MissingReason
from exporter.simulator.world import NvmlFault, SimDevice
from exporter.sources.nvml.source import Nvml
from tests.sources.nvml.conftest import Node, missing_of, read_devices, value_of

INIT = "nvmlInitWithFlags"
COUNT = "nvmlDeviceGetCount_v2"
A = SimDevice(uuid="GPU-a", index=0)
B = SimDevice(uuid="GPU-b", index=1)

REASONS = [
    (9, MissingReason.DRIVER_NOT_LOADED),
    (18, MissingReason.VERSION_MISMATCH),
    (4, MissingReason.PERMISSION_DENIED),
    (12, MissingReason.LIBRARY_MISSING),
    (999, MissingReason.DRIVER_ERROR),
    (28, MissingReason.DRIVER_ERROR),
    (424242, MissingReason.DRIVER_ERROR),
]


async def test_driver_that_answers_gives_its_devices_and_when_they_were_read(node: Node) -> None:
    """A reading bears the time of the passed clock and the driver's version."""
    reading = await node.open().read()
    assert isinstance(reading, Fresh)
    assert reading.taken_at == node.clock.seconds
    assert reading.value.driver_version == "575.57.08"
    assert [(device.index, device.uuid, device.up) for device in reading.value.devices] == [
        (0, "GPU-a", True),
        (1, "GPU-b", True),
    ]


@pytest.mark.parametrize(("code", "reason"), REASONS)
async def test_initialisation_that_fails_is_missing_with_its_reason_and_recovers(
    node: Node, code: int, reason: MissingReason
) -> None:
    """Each code of nvmlInit has a reason, and the same source is complete once the driver is there (LIFE-04)."""
    node.show(A, B, faults=(NvmlFault(symbol=INIT, code=code),))
    source = node.open()
    missing = missing_of(await source.read())
    assert missing.reason is reason
    assert f"({code})" in missing.detail
    node.show(A, B)
    node.clock.seconds += 1.0
    assert len(await read_devices(source)) == 2


async def test_library_that_is_absent_is_missing_and_found_once_it_is_there(node: Node, tmp_path: Path) -> None:
    """A library that appears later is taken up by the same source (LIFE-04, LIFE-05)."""
    late = tmp_path / "late" / "libnvidia-ml.so.1"
    source = node.open(library=str(late))
    missing = missing_of(await source.read())
    assert missing.reason is MissingReason.LIBRARY_MISSING
    assert str(late) in missing.detail
    late.parent.mkdir()
    late.symlink_to(node.library)
    node.clock.seconds += 1.0
    assert len(await read_devices(source)) == 2


async def test_file_that_is_no_library_is_library_missing(node: Node, tmp_path: Path) -> None:
    """Something else at the library's path is a reason, not an exception (LIFE-05)."""
    fake = tmp_path / "libnvidia-ml.so.1"
    fake.write_text("not a library")
    assert missing_of(await node.open(library=str(fake)).read()).reason is MissingReason.LIBRARY_MISSING


async def test_driver_that_stays_away_is_asked_after_pauses_that_double_up_to_thirty_seconds(node: Node) -> None:
    """Attempts to initialise come 1, 2, 4, 8, 16, 30 and 30 s after one another, by the passed clock (LIFE-04)."""
    source = node.open()
    attempts = [0]
    for second in range(100):
        # The code tells which attempt it was: it changes each second, and is kept between attempts.
        node.show(faults=(NvmlFault(symbol=INIT, code=1000 + second),))
        node.clock.seconds = 1_000.0 + second
        missing = missing_of(await source.read())
        assert missing.at == node.clock.seconds
        attempt = int(missing.detail.rpartition("(")[2].rstrip(")")) - 1000
        if attempt != attempts[-1]:
            attempts.append(attempt)
    assert attempts == [0, 1, 3, 7, 15, 31, 61, 91]


async def test_pause_starts_from_one_second_again_after_a_good_reading(node: Node) -> None:
    """A good reading forgets how long the last outage was."""
    source = node.open()
    gone = (NvmlFault(symbol=INIT, code=9),)
    node.show(A, faults=gone)
    for pause in (1, 2, 4):
        missing_of(await source.read())
        node.clock.seconds += pause
    node.show(A)
    value_of(await source.read())
    node.show(A, faults=(NvmlFault(symbol=COUNT, code=9), *gone))
    missing_of(await source.read())
    node.show(A)
    node.clock.seconds += 1.0
    value_of(await source.read())


async def test_node_without_a_gpu_is_no_failure_and_logs_nothing(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """A driver that counts no device is fresh, with no devices (LIFE-05)."""
    caplog.set_level(logging.INFO)
    node.show()
    source = node.open()
    for _ in range(10):
        assert value_of(await source.read()).devices == ()
    assert caplog.messages == []


async def test_devices_that_come_after_the_driver_are_found_without_a_restart(node: Node) -> None:
    """A driver that has no device yet is started anew until it has (LIFE-04)."""
    node.show()
    source = node.open()
    assert await read_devices(source) == ()
    # What tells that it was initialised again: the initialisation fails now.
    node.show(faults=(NvmlFault(symbol=INIT, code=9),))
    node.clock.seconds += 1.0
    assert missing_of(await source.read()).reason is MissingReason.DRIVER_NOT_LOADED
    node.show(A, B)
    node.clock.seconds += 2.0
    assert len(await read_devices(source)) == 2


@pytest.mark.parametrize(("code", "reason"), REASONS)
async def test_driver_that_fails_in_mid_life_is_missing_and_recovers(node: Node, code: int, reason: MissingReason) -> None:
    """Whole-driver errors of a running driver stop all samples, with the reason, until it answers again (LIFE-10)."""
    source = node.open()
    value_of(await source.read())
    node.show(A, B, faults=(NvmlFault(symbol=COUNT, code=code), NvmlFault(symbol=INIT, code=code)))
    for _ in range(7):
        assert missing_of(await source.read()).reason is reason
        node.clock.seconds += 5.0
    node.show(A, B)
    node.clock.seconds += 30.0
    assert [device.uuid for device in await read_devices(source)] == ["GPU-a", "GPU-b"]


@pytest.mark.parametrize("symbol", ["nvmlDeviceGetUUID", "nvmlDeviceGetPowerUsage", "nvmlSystemGetDriverVersion", "*"])
@pytest.mark.parametrize(("code", "reason"), [(18, MissingReason.VERSION_MISMATCH), (9, MissingReason.DRIVER_NOT_LOADED)])
async def test_driver_that_is_gone_is_noticed_at_whatever_call_tells_it(
    node: Node, symbol: str, code: int, reason: MissingReason
) -> None:
    """A call of one device that says the driver is gone says it of all devices (LIFE-10)."""
    source = node.open()
    value_of(await source.read())
    node.show(A, B, faults=(NvmlFault(symbol=symbol, code=code),))
    missing = missing_of(await source.read())
    assert missing.reason is reason
    assert "nvml" in missing.detail


async def test_shutdown_by_somebody_else_is_healed_within_the_same_reading(node: Node) -> None:
    """UNINITIALIZED of a running driver costs one initialisation and no reading."""
    source = node.open()
    value_of(await source.read())
    pynvml.nvmlShutdown()
    assert len(await read_devices(source)) == 2


async def test_driver_that_is_never_initialised_is_not_tried_twice_in_one_reading(node: Node) -> None:
    """UNINITIALIZED right after an initialisation is a reason, not a loop."""
    node.show(A, faults=(NvmlFault(symbol=COUNT, code=1),))
    source = node.open()
    assert missing_of(await source.read()).reason is MissingReason.DRIVER_ERROR
    node.show(A)
    node.clock.seconds += 0.5
    missing_of(await source.read())
    node.clock.seconds += 0.5
    value_of(await source.read())


async def test_access_lost_to_every_device_opens_the_driver_anew_after_pauses(node: Node) -> None:
    """UNKNOWN from each device keeps them as failed, and NVML is initialised again until they answer (LIFE-10)."""
    source = node.open()
    value_of(await source.read())
    node.show(A, B, faults=(NvmlFault(symbol="*", code=999),))
    assert [device.trouble for device in await read_devices(source)] == [DeviceTrouble.UNKNOWN] * 2
    # What tells that it was initialised again: the initialisation fails now.
    node.show(A, B, faults=(NvmlFault(symbol="*", code=999), NvmlFault(symbol=INIT, code=9)))
    node.clock.seconds += 0.5
    assert [device.trouble for device in await read_devices(source)] == [DeviceTrouble.UNKNOWN] * 2
    node.clock.seconds += 0.5
    assert missing_of(await source.read()).reason is MissingReason.DRIVER_NOT_LOADED
    node.show(A, B, faults=(NvmlFault(symbol="*", code=999),))
    node.clock.seconds += 2.0
    assert [(device.uuid, device.trouble) for device in await read_devices(source)] == [
        ("GPU-a", DeviceTrouble.UNKNOWN),
        ("GPU-b", DeviceTrouble.UNKNOWN),
    ]
    node.show(A, B)
    node.clock.seconds += 30.0
    assert all(device.up for device in await read_devices(source))


async def test_one_lost_gpu_never_shuts_the_driver_down(node: Node) -> None:
    """A device's own loss, even of the only one, is no reason to initialise again (LIFE-01)."""
    node.show(A)
    source = node.open()
    value_of(await source.read())
    node.show(A, faults=(NvmlFault(symbol="*", code=15), NvmlFault(symbol=INIT, code=9)))
    for _ in range(5):
        node.clock.seconds += 60.0
        assert [device.trouble for device in await read_devices(source)] == [DeviceTrouble.LOST]


async def test_driver_version_that_fails_costs_itself_only(node: Node) -> None:
    """Without its version the driver is as good as with it."""
    node.show(A, faults=(NvmlFault(symbol="nvmlSystemGetDriverVersion", code=999),))
    state = value_of(await node.open().read())
    assert state.driver_version == ""
    assert state.devices[0].up


async def test_outage_is_logged_once_with_its_reason_and_once_with_its_length(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    """Transitions are logged, cycles are not (LIFE-05)."""
    caplog.set_level(logging.INFO)
    source = node.open()
    node.show(A, faults=(NvmlFault(symbol=INIT, code=9),))
    for _ in range(10):
        missing_of(await source.read())
        node.clock.seconds += 5.0
    node.show(A)
    node.clock.seconds += 50.0
    for _ in range(3):
        value_of(await source.read())
    assert len(caplog.messages) == 2
    assert "driver_not_loaded" in caplog.messages[0]
    assert "back after 100.0 s" in caplog.messages[1]


async def test_mps_enumeration_is_switched_off_before_the_driver_starts(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that makes NVML show parts of GPUs does not survive in our process."""
    monkeypatch.setenv("NVML_MPS_DEVICE_ENUMERATION", "1")
    value_of(await node.open().read())
    assert "NVML_MPS_DEVICE_ENUMERATION" not in os.environ


async def test_closed_source_is_missing_as_released_and_nvml_is_shut_down(node: Node) -> None:
    """After close nobody in this process holds the driver."""
    source = node.open()
    value_of(await source.read())
    await source.close()
    assert missing_of(await source.read()).reason is MissingReason.RELEASED
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()


async def test_source_that_was_never_read_closes_without_a_driver(node: Node) -> None:
    """Nothing is loaded before the first reading."""
    source = Nvml(library="/nowhere", deadline_seconds=1.0, clock=node.clock)
    await source.close()
    await source.close()
    assert missing_of(await source.read()).reason is MissingReason.RELEASED
