"""The pods of this node as list and watch tell them, and those deleted in the last minutes. No I/O."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from exporter.model.ids import PodUid
from exporter.model.workload import Pod, PodStore
from exporter.sources.kubernetes.pod_objects import parse_pod


class PodCache:
    """Each change replaces the mapping that readers hold, so that a reader never sees half of one."""

    def __init__(
        self,
        annotation_keys: frozenset[str],
        clock: Callable[[], float] = time.monotonic,
        deleted_kept_seconds: float = 600.0,
        deleted_kept_most: int = 500,
    ) -> None:
        """A GPU process can outlive its pod's API object: `deleted_kept_seconds` is for how long its name stays known."""
        self._annotation_keys = annotation_keys
        self._clock = clock
        self._deleted_kept_seconds = deleted_kept_seconds
        self._deleted_kept_most = deleted_kept_most
        self._pods: Mapping[PodUid, Pod] = {}
        self._deleted: dict[PodUid, tuple[float, Pod]] = {}
        """UID to (when, pod), in order of deletion."""
        self._malformed_in_list = 0
        self._malformed_since = 0
        self.generation = 0
        """Grows with every change of a pod that this exporter can see."""

    def replace(self, documents: Iterable[object]) -> None:
        """Take a whole list; pods that are not in it any more were deleted meanwhile."""
        pods: dict[PodUid, Pod] = {}
        malformed = 0
        for document in documents:
            pod = parse_pod(document, self._annotation_keys) if isinstance(document, dict) else None
            if pod is None:
                malformed += 1
            else:
                pods[pod.uid] = pod
        for uid, pod in self._pods.items():
            if uid not in pods:
                self._bury(pod)
        self._malformed_in_list, self._malformed_since = malformed, 0
        self._show(pods)

    def put(self, document: Mapping[str, Any]) -> None:
        """Take an added or modified pod, known or not."""
        pod = parse_pod(document, self._annotation_keys)
        if pod is None:
            self.count_malformed()
        elif self._pods.get(pod.uid) != pod:
            self._show({**self._pods, pod.uid: pod})

    def remove(self, document: Mapping[str, Any]) -> None:
        """Take a deletion; the event carries the pod's last state."""
        pod = parse_pod(document, self._annotation_keys)
        if pod is None:
            self.count_malformed()
            return
        self._bury(pod)
        self._show({uid: other for uid, other in self._pods.items() if uid != pod.uid})

    def count_malformed(self) -> None:
        """An event that could not be understood."""
        self._malformed_since += 1

    def store(self) -> PodStore:
        """What is known now."""
        self._forget()
        return PodStore(
            pods=self._pods,
            recently_deleted={uid: pod for uid, (_, pod) in self._deleted.items()},
            malformed=self._malformed_in_list + self._malformed_since,
        )

    def _show(self, pods: Mapping[PodUid, Pod]) -> None:
        for uid in pods:
            self._deleted.pop(uid, None)
        if pods != self._pods:
            self._pods = pods
            self.generation += 1

    def _bury(self, pod: Pod) -> None:
        self._deleted.pop(pod.uid, None)
        self._deleted[pod.uid] = (self._clock(), pod)
        self._forget()

    def _forget(self) -> None:
        oldest = self._clock() - self._deleted_kept_seconds
        too_many = len(self._deleted) - self._deleted_kept_most
        gone = [uid for place, (uid, (at, _)) in enumerate(self._deleted.items()) if at < oldest or place < too_many]
        for uid in gone:
            del self._deleted[uid]
