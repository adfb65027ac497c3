"""The kubelet's pod-resources API as the pipeline sees it: `read` and `close`.

After a restart the kubelet answers List with no pods, and then with some of them, for a second or two, and says OK each time.
That is passed on as it is; `refresh` asks again as soon as something else shows that the answer is behind.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from google.protobuf.message import DecodeError

from exporter.edge.transitions import Transitions
from exporter.model.holding import Holdings
from exporter.model.reading import Fresh, Missing, MissingReason, Reading
from exporter.sources.podresources import podresources_pb2 as v1
from exporter.sources.podresources import podresources_v1alpha1_pb2 as v1alpha1
from exporter.sources.podresources.channel import Refusal, SocketChannel
from exporter.sources.podresources.decode import decode_allocatable, decode_list, decode_v1alpha1_list

T = TypeVar("T")

_PAUSE_SECONDS: Final = 1.0
"""Shortest time between two reads: the kubelet's limit is for all its clients together, and each List collects its garbage."""

_V1: Final = v1.DESCRIPTOR.services_by_name["PodResourcesLister"].full_name
_V1ALPHA1: Final = v1alpha1.DESCRIPTOR.services_by_name["PodResourcesLister"].full_name

logger = logging.getLogger(__name__)


class PodResources:
    """What the kubelet of this node gave to containers.

    Args:
        socket: the kubelet's socket. Its folder has to be mounted, not the file: the file is a new one after each restart.
        interval_seconds: how long an answer is returned again before the kubelet is asked anew.
        deadline_seconds: longest wait for one read, all its calls together.
        max_message_bytes: longest answer that is accepted.
        clock: monotonic seconds; for the time of a reading and the intervals between two.
    """

    def __init__(
        self,
        *,
        socket: Path,
        interval_seconds: float,
        deadline_seconds: float,
        max_message_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._channel = SocketChannel(socket, max_message_bytes)
        self._interval_seconds = interval_seconds
        self._deadline_seconds = deadline_seconds
        self._clock = clock
        self._lock = asyncio.Lock()
        self._last: Reading[Holdings] | None = None
        self._asked_at = 0.0
        self._transitions = Transitions("pod-resources", clock)
        self._allocatable_trouble: MissingReason | None = None

    async def read(self, *, refresh: bool = False) -> Reading[Holdings]:
        """The last answer, or a new one if the interval has passed or `refresh` asks for it, at most once a second.

        Missing (and tried again after a second): socket_missing, permission_denied, connection_refused, unreachable, timeout,
        unimplemented (neither v1 nor v1alpha1), unauthorized, rate_limited, too_large, malformed, server_error. An answer
        whose allocatable devices could not be had is an answer, without them.
        """
        async with self._lock:
            now = self._clock()
            if self._last is None or now - self._asked_at >= self._pause_seconds(refresh=refresh):
                self._asked_at = now
                reading = await self._ask(now)
                self._transitions.heard(reading)
                self._last = reading
            return self._last

    async def close(self) -> None:
        """Hangs up."""
        await self._channel.close()

    def _pause_seconds(self, *, refresh: bool) -> float:
        if refresh or isinstance(self._last, Missing):
            return min(_PAUSE_SECONDS, self._interval_seconds)
        return self._interval_seconds

    async def _ask(self, now: float) -> Reading[Holdings]:
        ends_at = asyncio.get_running_loop().time() + self._deadline_seconds
        answer = await self._call(f"{_V1}/List", ends_at)
        if isinstance(answer, Refusal) and answer.reason is MissingReason.UNIMPLEMENTED:
            answer = await self._call(f"{_V1ALPHA1}/List", ends_at)
            return await self._decoded(decode_v1alpha1_list, answer, now)
        if isinstance(answer, Refusal):
            return Missing(answer.reason, now, answer.detail)
        # Before decoding, which may take a second and is none of the kubelet's.
        second_answer = await self._call(f"{_V1}/GetAllocatableResources", ends_at)
        reading = await self._decoded(decode_list, answer, now)
        if isinstance(reading, Missing):
            return reading
        allocatable = await self._decoded(decode_allocatable, second_answer, now)
        self._log_allocatable_change(allocatable)
        if isinstance(allocatable, Missing):
            return reading
        return Fresh(replace(reading.value, allocatable=allocatable.value), now)

    @staticmethod
    async def _decoded(decode: Callable[[bytes], T], answer: bytes | Refusal, now: float) -> Reading[T]:
        if isinstance(answer, Refusal):
            return Missing(answer.reason, now, answer.detail)
        try:
            # In a thread: an answer of some MiB would hold up the event loop, and with it the scrapes.
            return Fresh(await asyncio.to_thread(decode, answer), now)
        except DecodeError as error:
            return Missing(MissingReason.MALFORMED, now, str(error))

    async def _call(self, method: str, ends_at: float) -> bytes | Refusal:
        left_seconds = ends_at - asyncio.get_running_loop().time()
        return await self._channel.call(f"/{method}", max(left_seconds, 0.0))

    def _log_allocatable_change(self, reading: Reading[Mapping[str, frozenset[str]]]) -> None:
        reason = reading.reason if isinstance(reading, Missing) else None
        if reason is not self._allocatable_trouble:
            if isinstance(reading, Missing):
                logger.warning("The kubelet does not tell its allocatable devices: %s %s", reading.reason, reading.detail)
            else:
                logger.info("The kubelet tells its allocatable devices again")
        self._allocatable_trouble = reason
