"""Writes the pages under docs/ that are made from code: all of them, or those that are named.

With ``--check`` nothing is written; the exit status is 1 if the page is stale.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from exporter import catalogue  # noqa: E402 - runs from a checkout, where the package need not be installed
from exporter.catalogue import Family, FamilyType, Group  # noqa: E402 - as above
from scripts.configuration_page import configuration_page  # noqa: E402 - as above

INTRODUCTION = """\
# Metrics

<!-- Made by scripts/generate_docs.py metrics from exporter/catalogue.py. Do not edit. -->

What `/metrics` serves, as text or OpenMetrics by `Accept`.

How to read it:

- **Missing is not zero.** What could not be measured has no sample. A 0 is a measured 0.
- Gauges end in the cycle in which their subject ends; there are no frozen values. While the driver does not answer, there
  are no GPU series at all: see `gpu_exporter_source_missing`.
- Sum or average over all labels always means something: a total and its parts never share a name.
- Ratios go from 0 to 1. Sizes are in bytes, times in seconds, points in time in seconds since 1970.
- An *info* metric is a gauge that is always 1: what it says stands in its labels.
- Counters begin at 0 and wait for `ledger.birth_hold` (30 s) with their first growth, so that `increase()` sees it. Counters of
  what has ended stay for a while, unchanged.
- For every GPU: provisioned = unallocated + allocation unknown + held (active + idle_held + idle_empty + unknown), and busy =
  what containers were + unattributed. What the hold keeps back is the only difference on one page.
- Time in which nobody watched (NVML away, or more than 30 s between two cycles) is in none of these counters, and what was
  drawn in it is `not_measured`: it shows as missing coverage.
- A container on a time-sliced GPU can be busier than its share while its neighbours rest: busy over held or over measured
  seconds can pass 1 there. That is a finding, not an error.
- Prometheus' `increase()` extrapolates each series that ended inside the window by half a scrape interval: many short pods make
  sums over container families a little too high. Bills come from the owner families.
- Labels of pods count from the cycle in which they change; those of namespaces and workloads are looked up again every five
  minutes.
- Stable names and labels change only with both names served for one release.

## Labels

| Set | Labels | Meaning |
|---|---|---|
| **D** | {D} | A physical GPU. `gpu` is NVML's index when this UUID was first seen: a lost neighbour renames nobody. \
`uuid` is that of the physical GPU, on MIG rows too. Device families never carry C or O, so their series keep their identity \
while pods come and go. |
| **M** | {M} | A MIG instance. On container families only where the container holds or uses one. |
| **C** | {C} | The container of the *workload*, not the exporter's own: scrape with `honorLabels: true`. |
| **O** | {O} | The owner, and the `extra_labels` of the configuration. `unowned`: metadata was read and names nobody. \
`unknown`: metadata could not be read. |
| **P** | {P} | A pod. |
| **W** | {W} | An owner over all its pods, and the `extra_labels` of the configuration. |

A label that does not apply is absent; to Prometheus an empty label is the same.
"""

TITLES: Mapping[Group, tuple[str, str]] = {
    Group.DEVICE: ("Device", "One row per physical GPU, whoever holds it."),
    Group.MIG: ("MIG instance", "One row per MIG instance of a GPU in MIG mode."),
    Group.CONTAINER: ("Container", "One row per container and device that it holds or uses."),
    Group.OWNER: (
        "Owner",
        "One row per owner and GPU model: it survives the pods, so bills and long windows are read from here.",
    ),
    Group.POD: ("Pod", "One row per pod that asks for, holds or uses a GPU."),
    Group.NODE: ("Node", "What the node is, and what it can give."),
    Group.EXPORTER: ("Exporter", "How the exporter itself fares."),
}

PROCESS = """
`process_*` (CPU time, memory, start time and file descriptors of the exporter's own process) stand on the same page.
"""

SETS = {"D": catalogue.D, "M": catalogue.M, "C": catalogue.C, "P": catalogue.P, "W": catalogue.W, "O": catalogue.O}


def metrics_page() -> str:
    """docs/metrics.md as the catalogue has it."""
    chapters = (chapter(group) for group in Group)
    introduction = INTRODUCTION.format(**{name: code(labels) for name, labels in SETS.items()})
    return introduction + "".join(chapters) + PROCESS + "\n" + closed_values()


def chapter(group: Group) -> str:
    """One group as a table."""
    title, meaning = TITLES[group]
    families = [family for family in catalogue.ALL if family.group is group]
    rows = "".join(row(family) for family in families)
    head = "| Metric | Type | Labels | Meaning | Absent | Stability |\n|---|---|---|---|---|---|\n"
    return f"\n## {title}\n\n{meaning}\n\n{head}{rows}"


def row(family: Family) -> str:
    """One family."""
    kind = "info gauge" if family.type is FamilyType.INFO else family.type.value
    cells = (f"`{family.name}`", kind, labels_of(family), family.help, family.absent_when, family.stability.value)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def labels_of(family: Family) -> str:
    """The sets that the labels are made of, and what is beside them."""
    rest, found = list(family.labels), []
    for name, labels in SETS.items():
        if set(labels) <= set(rest):
            found.append(f"**{name}**")
            rest = [label for label in rest if label not in labels]
    return " ".join(found + [f"`{label}`" for label in rest]) or "none"


def closed_values() -> str:
    """Labels whose values are a closed set."""
    lines = dict.fromkeys(
        f"| `{family.name}` | `{label}` | {code(values)} |\n" for family, label, values in closed() if label != "workload_class"
    )
    classes = next(values for _, label, values in closed() if label == "workload_class")
    head = "## Closed values\n\n| Metric | Label | Values |\n|---|---|---|\n"
    return head + f"| wherever it stands | `workload_class` | {code(classes)} |\n" + "".join(lines)


def closed() -> Iterator[tuple[Family, str, tuple[str, ...]]]:
    """Every label with a closed set of values."""
    for family in catalogue.ALL:
        for label, values in family.values.items():
            yield family, label, values


def code(words: tuple[str, ...]) -> str:
    """Words in code font, with commas."""
    return ", ".join(f"`{word}`" for word in words)


PAGES: Mapping[str, tuple[Path, Callable[[], str]]] = {
    "metrics": (ROOT / "docs" / "metrics.md", metrics_page),
    "configuration": (ROOT / "docs" / "configuration.md", configuration_page),
}


def main() -> int:
    """Writes or checks the pages that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=f"one of {', '.join(sorted(PAGES))}; none: all")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is stale")
    arguments = parser.parse_args()
    arguments.pages = arguments.pages or sorted(PAGES)
    if unknown := sorted(set(arguments.pages) - PAGES.keys()):
        parser.error(f"no such page: {', '.join(unknown)}")
    stale = [
        path for path, make in map(PAGES.__getitem__, arguments.pages) if not refresh(path, make(), write=not arguments.check)
    ]
    for path in stale:
        print(f"stale: {path.relative_to(ROOT)}; run scripts/generate_docs.py {' '.join(arguments.pages)}", file=sys.stderr)
    return 1 if stale else 0


def refresh(path: Path, text: str, *, write: bool) -> bool:
    """True if the file has the text, written now or before."""
    if write:
        path.write_text(text, encoding="utf-8")
    return path.is_file() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
