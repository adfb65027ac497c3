"""Generates the message classes of `proto/` into the room of the pod-resources source.

Only messages and their type stubs: both sides call by method name with raw bytes, so that undecodable bytes are a value and
not a traceback of the library; the gRPC service stubs would only add a check of the grpcio version at import.
"""

import argparse
import sys
from importlib import resources
from pathlib import Path

from grpc_tools import protoc  # type: ignore[import-untyped]  # grpcio-tools ships no types

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "exporter/sources/podresources"
"""The name under which protoc sees `proto/`: it makes the imports, and the names in protobuf's pool, absolute."""
STUB_HEAD = "# mypy: ignore-errors\n"
"""protoc's stubs are precise in the fields and loose in the constructors (a Mapping of anything)."""


def generate(out: Path) -> None:
    """Writes ``*_pb2.py`` and ``*_pb2.pyi`` under ``out``, in the folders of their package.

    Raises:
        SystemExit: protoc refused a file; it has said why on stderr.
    """
    names = sorted(path.name for path in (ROOT / "proto").glob("*.proto"))
    includes = resources.files("grpc_tools") / "_proto"
    code = protoc.main(
        [
            "protoc",
            f"-I{PACKAGE}={ROOT / 'proto'}",
            f"-I{includes}",
            f"--python_out={out}",
            f"--pyi_out={out}",
            *(f"{PACKAGE}/{name}" for name in names),
        ]
    )
    if code:
        raise SystemExit(code)
    for name in names:
        stub = out / PACKAGE / name.replace(".proto", "_pb2.pyi")
        stub.write_text(STUB_HEAD + stub.read_text())


def main(arguments: list[str]) -> None:
    """Command line: ``--out`` names another root than the repository's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT)
    generate(parser.parse_args(arguments).out)


if __name__ == "__main__":
    main(sys.argv[1:])
