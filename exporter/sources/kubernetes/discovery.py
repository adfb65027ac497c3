"""From an owner's apiVersion and kind to the path of its object: a table for the built-in kinds, API discovery for the others.

https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cachetools import LRUCache

from exporter.model.reading import MissingReason
from exporter.model.workload import OwnerKey
from exporter.sources.kubernetes.failures import DEFINITIVE, OwnLimit, RequestFailed
from exporter.sources.kubernetes.fields import is_object_name, objects, text
from exporter.sources.kubernetes.shelf import FAILED_SECONDS, REFUSED_SECONDS

_BUILT_IN = {
    ("apps/v1", "ReplicaSet"): "replicasets",
    ("apps/v1", "Deployment"): "deployments",
    ("apps/v1", "StatefulSet"): "statefulsets",
    ("apps/v1", "DaemonSet"): "daemonsets",
    ("batch/v1", "Job"): "jobs",
    ("batch/v1", "CronJob"): "cronjobs",
    ("v1", "ReplicationController"): "replicationcontrollers",
    ("v1", "Pod"): "pods",
}
_API_VERSION = re.compile(r"([a-z0-9][-a-z0-9.]{0,251}/)?[a-z][a-z0-9]{0,62}")
_LISTED_SECONDS = 3600.0
_MOST = 256


@dataclass(frozen=True, slots=True)
class Resource:
    """How objects of one kind are addressed."""

    plural: str
    namespaced: bool


@dataclass(frozen=True, slots=True)
class _Listing:
    """One answer of the discovery API."""

    at: float
    resources: Mapping[str, Resource]
    """By kind."""
    failure: RequestFailed | None = None

    def counts_for_seconds(self, kind: str) -> float:
        if self.failure is not None:
            return REFUSED_SECONDS if self.failure.reason in DEFINITIVE else FAILED_SECONDS
        # A custom resource may have been installed since.
        return _LISTED_SECONDS if kind in self.resources else REFUSED_SECONDS


class Discovery:
    """Finds paths; each group and version is listed once an hour, and only if an owner needs it."""

    def __init__(self, get: Callable[[str], Awaitable[Mapping[str, Any]]], clock: Callable[[], float] = time.monotonic) -> None:
        """`get` reads a path of the API, within the limits on look-ups."""
        self._get = get
        self._clock = clock
        self._listings: LRUCache[str, _Listing] = LRUCache(_MOST)
        self._locks: LRUCache[str, asyncio.Lock] = LRUCache(_MOST)
        """So that many owners of one kind list it once."""

    async def path_of(self, key: OwnerKey) -> str:
        """Path of the object; fails with NOT_FOUND for a kind that is not served and for names that no object can have."""
        parts = (key.name,) if not key.namespace else (key.name, key.namespace)
        if not _API_VERSION.fullmatch(key.api_version) or not all(map(is_object_name, parts)):
            raise RequestFailed(MissingReason.NOT_FOUND, "a reference that no object can have")
        plural = _BUILT_IN.get((key.api_version, key.kind))
        resource = Resource(plural, namespaced=True) if plural else await self._resource(key.api_version, key.kind)
        base = _base(key.api_version)
        if not resource.namespaced:
            return f"{base}/{resource.plural}/{key.name}"
        if not key.namespace:
            raise RequestFailed(MissingReason.NOT_FOUND, "a namespaced owner without a namespace")
        return f"{base}/namespaces/{key.namespace}/{resource.plural}/{key.name}"

    async def _resource(self, api_version: str, kind: str) -> Resource:
        if "/" not in api_version:
            # Only the built-in controllers of the core group own pods: nobody makes us read a Secret or a Namespace.
            raise RequestFailed(MissingReason.NOT_FOUND, "no controller of the core group")
        async with self._locks.setdefault(api_version, asyncio.Lock()):
            listing = self._listings.get(api_version)
            if listing is None or self._clock() - listing.at >= listing.counts_for_seconds(kind):
                listing = await self._list(api_version)
                self._listings[api_version] = listing
        if listing.failure is not None:
            raise RequestFailed(listing.failure.reason, listing.failure.detail)
        if kind not in listing.resources:
            raise RequestFailed(MissingReason.NOT_FOUND, f"no such kind in {api_version}")
        return listing.resources[kind]

    async def _list(self, api_version: str) -> _Listing:
        try:
            answer = await self._get(_base(api_version))
        except OwnLimit:
            raise
        except RequestFailed as failure:
            return _Listing(self._clock(), {}, failure)
        resources = {
            text(entry, "kind"): Resource(text(entry, "name"), namespaced=entry.get("namespaced") is True)
            for entry in objects(answer, "resources")
            # A name with a slash is a subresource of the same kind.
            if is_object_name(text(entry, "name"))
        }
        return _Listing(self._clock(), resources)


def _base(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
