"""The one thread that talks to NVML. A call that never returns costs this thread and nothing else; there is no second one."""

import queue
import threading
from concurrent.futures import Future

from exporter.model.device import NvmlState
from exporter.model.reading import Reading
from exporter.sources.nvml.session import Session

Answer = Future[Reading[NvmlState]]


class SamplerEndedError(RuntimeError):
    """The NVML thread came to its end by a mistake of ours; its traceback is in the log."""


class Sampler:
    """Owns a session for its life. A daemon thread: a stuck call does not keep the process from ending."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._requests: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        self._ended: Future[None] = Future()
        # A running future cannot be cancelled by whoever gave up waiting for it.
        self._ended.set_running_or_notify_cancel()
        self._thread = threading.Thread(target=self._serve, name="nvml", daemon=True)
        self._thread.start()

    def ask(self) -> Answer:
        """A reading, some day. The caller asks for one at a time.

        Raises:
            SamplerEndedError: there is no thread any more.
        """
        if self._ended.done():
            raise SamplerEndedError
        answer: Answer = Future()
        self._requests.put(answer)
        return answer

    def stop(self) -> "Future[None]":
        """Ends the thread after the call in flight, NVML shut down; the future is done then."""
        self._requests.put(None)
        return self._ended

    def _serve(self) -> None:
        answer: Answer | None = None
        try:
            while (answer := self._requests.get()) is not None:
                if answer.set_running_or_notify_cancel():
                    answer.set_result(self._session.read())
            self._session.end()
        finally:
            self._ended.set_result(None)
            if answer is not None and not answer.done():
                answer.set_exception(SamplerEndedError())
