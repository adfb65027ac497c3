"""The committed message classes are what protoc makes of `proto/`."""

import subprocess
import sys
from pathlib import Path

from exporter.sources.podresources import podresources_pb2 as v1
from exporter.sources.podresources import podresources_v1alpha1_pb2 as v1alpha1

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "exporter/sources/podresources"


def _generated(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / PACKAGE).glob("*_pb2*.py*")}


def test_generating_again_gives_the_committed_files(tmp_path: Path) -> None:
    """No generated file is stale, edited, missing, or left over."""
    subprocess.run([sys.executable, "scripts/generate_proto.py", "--out", str(tmp_path)], cwd=ROOT, check=True)
    assert _generated(tmp_path) == _generated(ROOT)
    assert len(_generated(ROOT)) == 4


def test_both_versions_are_known_by_the_names_on_the_wire() -> None:
    """The packages are literally v1 and v1alpha1, side by side in one process."""
    assert v1.DESCRIPTOR.services_by_name["PodResourcesLister"].full_name == "v1.PodResourcesLister"
    assert v1alpha1.DESCRIPTOR.services_by_name["PodResourcesLister"].full_name == "v1alpha1.PodResourcesLister"
