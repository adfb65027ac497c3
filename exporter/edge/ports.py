"""What the pipeline asks of sources and store: one verb each."""

from collections.abc import Collection
from typing import Protocol

from exporter.model.device import NvmlState
from exporter.model.holding import Holdings
from exporter.model.ledger import Ledger
from exporter.model.process import ProcessTable
from exporter.model.published import SourceHealth
from exporter.model.reading import Reading
from exporter.model.workload import NamespaceTable, NodeMeta, OwnerKey, OwnerTable, PodStore


class NvmlSource(Protocol):
    """Devices and the processes on them."""

    async def read(self) -> Reading[NvmlState]:
        """One cycle's devices."""


class HoldingsSource(Protocol):
    """What the kubelet gave away; `refresh` asks again before its interval has passed."""

    async def read(self, *, refresh: bool) -> Reading[Holdings]:
        """The kubelet's latest answer."""


class PodsSource(Protocol):
    """Pods of this node; kept up to date behind the scenes, so that reading costs nothing."""

    @property
    def generation(self) -> int:
        """Grows with every change of a pod."""

    def read(self) -> Reading[PodStore]:
        """The pods as of now, without I/O."""

    async def run(self) -> None:
        """Follow the pods until cancelled."""


class NodeSource(Protocol):
    """This node's own object."""

    async def read(self) -> Reading[NodeMeta]:
        """The node as of now."""


class ProcessSource(Protocol):
    """/proc, for the PIDs handed over."""

    async def read(self, pids: Collection[int]) -> Reading[ProcessTable]:
        """The processes and their ancestors."""


class OwnerSource(Protocol):
    """Controllers above the pods, for the references handed over."""

    async def read(self, keys: Collection[OwnerKey]) -> Reading[OwnerTable]:
        """The owners and their ancestors."""


class NamespaceSource(Protocol):
    """Namespaces, for the names handed over."""

    async def read(self, names: Collection[str]) -> Reading[NamespaceTable]:
        """The namespaces."""


class LedgerStore(Protocol):
    """Where the ledger survives a restart."""

    @property
    def health(self) -> SourceHealth | None:
        """How the last attempt went; None: nothing is to survive."""

    async def save(self, ledger: Ledger) -> Ledger:
        """Write it, and say which ledger may be shown now: this one, or the last that a restart would find."""
