"""The one thread that reads /proc. A read that never returns costs this thread and nothing else; there is no second one."""

import queue
import threading
from concurrent.futures import Future

from exporter.model.process import ProcessTable
from exporter.model.reading import Reading
from exporter.sources.procfs.scan import Scanner

Answer = Future[Reading[ProcessTable]]
Request = tuple[Answer, frozenset[int], float]


class WorkerEndedError(RuntimeError):
    """The /proc thread came to its end by a mistake of ours; its traceback is in the log."""


class Worker:
    """A daemon thread: a stuck read does not keep the process from ending."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="procfs", daemon=True)
        self._thread.start()

    def ask(self, pids: frozenset[int], now: float) -> Answer:
        """A reading, some day. The caller asks for one at a time.

        Raises:
            WorkerEndedError: there is no thread any more.
        """
        if not self._thread.is_alive():
            raise WorkerEndedError
        answer: Answer = Future()
        self._requests.put((answer, pids, now))
        return answer

    def stop(self) -> None:
        """Ends the thread after the read in flight."""
        self._requests.put(None)

    def _serve(self) -> None:
        while (request := self._requests.get()) is not None:
            answer, pids, now = request
            try:
                if answer.set_running_or_notify_cancel():
                    answer.set_result(self._scanner.scan(pids, now))
            finally:
                if not answer.done():
                    answer.set_exception(WorkerEndedError())
