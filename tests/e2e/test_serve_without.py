"""serve on a machine that lacks something: it stays up, serves, and says what is missing and why."""

import asyncio
import signal
from pathlib import Path

from tests.exporter_process import an_exporter

GARBAGE = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
)
NOTHING = ("serve", "--interval", "200ms", "--node-name", "n", "--set", "nvml.library=libnvidia-ml-not-here.so.1")


async def test_machine_without_anything_is_served_with_reasons(tmp_path: Path) -> None:
    """No driver, no kubelet, no Kubernetes: 200, and a reason for each (LIFE-05, DEP-01)."""
    socket = f"pod_resources.socket={tmp_path}/kubelet.sock"
    home = {"HOME": str(tmp_path), "KUBECONFIG": ""}
    async with an_exporter(*NOTHING, "--set", socket, environment=home) as exporter:
        page = await exporter.page_when(lambda page: page.value("gpu_exporter_source_up", source="pods") == 0)
        assert page.value("gpu_exporter_source_missing", source="nvml", reason="library_missing") == 1
        assert page.value("gpu_exporter_source_missing", source="pod_resources", reason="socket_missing") == 1
        assert page.value("gpu_exporter_source_missing", source="pods", reason="no_configuration") == 1
        assert not page.series("gpu_info")
        assert (await exporter.get("/healthz"))[0] == 200
        assert (await exporter.get("/readyz"))[0] == 200
        status, body, _ = await exporter.get("/")
        assert status == 200
        assert "library" in body
        assert (await exporter.get("/api/v1/node"))[0] == 200
        await exporter.page_when(lambda page: (page.value("gpu_exporter_source_errors_total", source="nvml") or 0) > 1)
        assert await exporter.end() == 0
    complaints = [line for line in exporter.log if "nvml" in line.lower() or "kubelet.sock" in line]
    assert 1 <= len(complaints) <= 4, exporter.log


async def test_kubernetes_switched_off_is_no_fault(tmp_path: Path) -> None:
    """A node without an API is a choice; its sources are not listed as missing."""
    off = ("--set", "kubernetes.enabled=false", "--set", f"pod_resources.socket={tmp_path}/kubelet.sock")
    async with an_exporter(*NOTHING, *off) as exporter:
        page = await exporter.page_when(lambda page: page.series("gpu_exporter_last_cycle_timestamp_seconds"))
        assert {sample.labels["source"] for sample in page.series("gpu_exporter_source_up")} >= {"nvml", "pod_resources"}
        assert not page.series("gpu_exporter_source_up", source="pods")


async def test_interrupt_ends_it_cleanly(tmp_path: Path) -> None:
    """Ctrl-C is no failure, and leaves no traceback."""
    async with an_exporter(*NOTHING, "--set", f"pod_resources.socket={tmp_path}/x") as exporter:
        assert await exporter.end(signal.SIGINT) == 0
    assert "Traceback" not in "\n".join(exporter.log)


async def test_bytes_that_are_no_http_are_answered_and_not_logged(tmp_path: Path) -> None:
    """A port scanner must not fill the log."""
    async with an_exporter(*NOTHING, "--set", f"pod_resources.socket={tmp_path}/x") as exporter:
        port = int(exporter.url.rsplit(":", 1)[1])
        await exporter.page_when(lambda page: page.series("gpu_exporter_last_cycle_timestamp_seconds"))
        before = len(exporter.log)
        for garbage in GARBAGE:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(garbage)
            assert b" 400 " in await asyncio.wait_for(reader.readline(), 5)
            writer.close()
        assert (await exporter.get("/healthz"))[0] == 200
    assert exporter.log[before:] == []
