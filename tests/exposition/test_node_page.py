"""The node page: what it says, and that nothing on it can run or load but its own style and script."""

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from html.parser import HTMLParser
from typing import Any

import pytest

from exporter.accounting.idle import use_key
from exporter.exposition import humane, wording
from exporter.exposition.page import NodePage
from exporter.model.attribution import (
    ConflictKind,
    ContainerRow,
    DeviceRow,
    Sharing,
    State,
    UnattributedReason,
    UnresolvedReason,
)
from exporter.model.device import DeviceTrouble
from exporter.model.ledger import IdleClock, Ledger
from exporter.model.policy import OwnerSource, WorkloadClass
from exporter.model.published import Published, SourceHealth
from exporter.model.reading import MissingReason
from tests.exposition.examples import BUILD, GIB, MIB, NOW, a_busy_node, a_device, a_published, a_row, an_owner

VOID = {"meta", "link", "wbr", "br"}


class Reader(HTMLParser):
    """Checks that tags are nested well, and collects elements and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, Mapping[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """No attribute stands twice."""
        assert len(dict(attrs)) == len(attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element that closes itself."""
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """What is closed is what was opened last."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text that people see."""
        if self.open and self.open[-1] not in {"style", "script"}:
            self.words.append(data)

    @property
    def text(self) -> str:
        """All of it, with plain single spaces."""
        return " ".join(" ".join(self.words).replace("\u202f", " ").split())


def drawn(published: Published | None, *, stalled: bool = False, simulated: bool = False) -> Reader:
    reader = Reader()
    reader.feed(NodePage(replace(BUILD, simulated=simulated), 5.0).draw(published, stalled=stalled).decode())
    reader.close()
    assert reader.open == []
    return reader


def test_page_shows_each_gpu_its_holders_and_why() -> None:
    """Model, figures in humane units, holder, owner, class, share, state and evidence are all there."""
    text = drawn(a_busy_node()).text
    for words in (
        "8 \u00d7 NVIDIA H100 80GB HBM3",
        "GPU 0",
        "GPU-0a0a0a0a…0000",
        "71 GiB of 80 GiB",
        "662 of 700 W",
        "54 °C",
        "97 %",
        "time-slicing",
        "deployment train · training",
        "cc-1042",
        "idle, holds memory",
        "No kernel ran, and a process holds 38 GiB.",
        "3g.40gb",
        "43 %",
        "uses without holding",
        "a process of the host, in no pod",
        "No source can say who holds it.",
        "The driver has lost it",
        "two exclusive holders",
        "the driver does not know this device",
        "namespace label",
    ):
        assert words in text


def test_page_counts_what_is_held_idle_and_free() -> None:
    """The figures at the top are those of the document."""
    page = NodePage(BUILD, 5.0).draw(a_busy_node()).decode()
    assert re.findall(r"<dt>([\w, ]+)</dt><dd>(\d+)</dd>", page) == [
        ("GPUs", "8"),
        ("held", "5"),
        ("active", "2"),
        ("idle", "1"),
        ("free", "1"),
        ("used, not held", "1"),
        ("unknown", "3"),
    ]


def test_unmeasured_gpu_shows_unknown_and_no_number() -> None:
    """A value that is missing reads unknown, never 0."""
    device = a_device(
        utilization_ratio=None, memory_used_bytes=None, memory_total_bytes=None, power_watts=None, temperature_celsius=None
    )
    text = drawn(a_published(devices=(DeviceRow(device, Sharing.UNKNOWN, None),))).text
    assert text.count("unknown") >= 6
    assert "0 %" not in text
    assert "0 W" not in text
    assert "0 B" not in text


def test_missing_source_has_a_banner_with_reason_and_meaning() -> None:
    """Each missing source says why, and what is lost; a kept answer says its age."""
    text = drawn(a_busy_node()).text
    assert "owners forbidden The service account lacks a role." in text
    assert "Its last good answer, 12 s old, is still used." in text
    text = drawn(a_published(devices=None, sources={"nvml": SourceHealth(up=False, reason="driver_not_loaded")})).text
    assert "The NVIDIA kernel module is not loaded." in text
    assert "No GPU can be shown" in text


def test_node_without_gpu_is_told_from_a_driver_without_answer() -> None:
    """No GPU and no answer are two different sentences."""
    assert "there is no GPU on this node" in drawn(a_published(devices=())).text


def test_unknown_reason_and_source_do_not_break_the_page() -> None:
    """A source or reason that the page has no words for is shown as it is."""
    text = drawn(a_published(sources={"new_source": SourceHealth(up=False, reason="new_reason")})).text
    assert "new_source new_reason" in text


def test_simulated_page_says_so() -> None:
    """SIMULATED stands on the page of a simulated node, and on no other."""
    assert "SIMULATED" in drawn(a_busy_node(simulated=True), simulated=True).text
    assert "SIMULATED" not in drawn(a_busy_node()).text


def test_page_before_the_first_cycle_is_a_page() -> None:
    """During the start there is a page that says so."""
    assert "The first cycle has not ended yet." in drawn(None).text


@pytest.mark.parametrize(
    "value", ["<script>alert(1)</script>", "'\"><img src=x onerror=alert(1)>", "{{ 7 * 7 }}", "</main>", "&lt;", "\udcff"]
)
def test_hostile_names_are_text(value: str) -> None:
    """Names of strangers are shown, and make no element, attribute or template (EXPO-03)."""
    owner = an_owner(team=value, cost_center=value, workload=value, extra=(("project", value),))
    hostile = a_published(
        devices=(DeviceRow(a_device(model=value), Sharing.NONE, 1.0),),
        containers=(a_row(pod=value, owner=owner, state_evidence=value),),
        node=value,
        sources={value: SourceHealth(up=False, reason=value, detail=value)},
    )
    harmless = drawn(
        a_published(
            devices=(DeviceRow(a_device(), Sharing.NONE, 1.0),),
            containers=(a_row(state_evidence="x", owner=an_owner(extra=(("project", "x"),))),),
            sources={"x": SourceHealth(up=False, reason="x", detail="x")},
        )
    )
    reader = drawn(hostile)
    assert [(tag, sorted(attributes)) for tag, attributes in reader.elements] == [
        (tag, sorted(attributes)) for tag, attributes in harmless.elements
    ]
    assert reader.text.count(value.replace("\udcff", "\ufffd")) >= 8


def test_page_needs_nothing_from_elsewhere() -> None:
    """Nothing is loaded from another host, and nothing from this one but what is a link."""
    for tag, attributes in drawn(a_busy_node()).elements:
        assert "src" not in attributes
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")]
        if tag != "a" and "href" in attributes:
            assert str(attributes["href"]).startswith("data:")
        if tag == "a":
            assert re.fullmatch(r"#gpu-\d+|metrics|api/v1/node", str(attributes["href"]))


def test_policy_allows_exactly_the_style_and_script_on_the_page() -> None:
    """The hashes in the content security policy are those of the page's own style and script."""
    page = NodePage(BUILD, 5.0)
    text = page.draw(a_busy_node()).decode()
    for tag in ("style", "script"):
        [content] = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in page.content_security_policy


def test_tables_are_labelled_for_screen_readers() -> None:
    """Every table has a caption and every heading cell a scope; every id is unique."""
    elements = drawn(a_busy_node()).elements
    tags = [tag for tag, _ in elements]
    assert tags.count("table") == tags.count("caption") == 4
    assert all("scope" in attributes for tag, attributes in elements if tag == "th")
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert [attributes["lang"] for tag, attributes in elements if tag == "html"] == ["en"]


def test_links_of_the_overview_lead_to_a_gpu() -> None:
    """Each tile of the overview points to a row group that exists."""
    elements = drawn(a_busy_node()).elements
    ids = {attributes.get("id") for _, attributes in elements}
    targets = [
        str(attributes["href"])[1:] for tag, attributes in elements if tag == "a" and str(attributes["href"]).startswith("#")
    ]
    assert len(targets) == 8
    assert set(targets) <= ids


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (wording.STATES, State),
        (wording.SHARING, Sharing),
        (wording.CLASSES, WorkloadClass),
        (wording.TROUBLES, DeviceTrouble),
        (wording.UNATTRIBUTED, UnattributedReason),
        (wording.UNRESOLVED, UnresolvedReason),
        (wording.CONFLICTS, ConflictKind),
        (wording.OWNER_SOURCES, OwnerSource),
        (wording.REASONS, MissingReason),
    ],
)
def test_every_code_has_a_word(words: Mapping[str, str], codes: type[StrEnum]) -> None:
    """No closed value reaches the page without a sentence for people."""
    assert set(words) == set(codes)


@pytest.mark.parametrize(
    ("value", "said"), [(0.0, "0"), (0.004, "0.4"), (0.05, "5"), (1 / 7, "14"), (0.097, "9.7"), (0.0996, "10"), (1.0, "100")]
)
def test_percentages_are_short(value: float, said: str) -> None:
    """Few digits, and more of them where they matter."""
    assert humane.percent(value) == f"{said}\u202f%"


@pytest.mark.parametrize(
    ("amount", "said"), [(0, "0 B"), (1023, "1023 B"), (8 * MIB, "8 MiB"), (20 * GIB, "20 GiB"), (int(1.55 * GIB), "1.5 GiB")]
)
def test_sizes_are_in_binary_units(amount: int, said: str) -> None:
    """Memory is shown as the tools of the trade show it."""
    assert humane.size(amount) == said.replace(" ", "\u202f")


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 s"), (12.4, "12 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2 h")]
)
def test_durations_are_in_fitting_units(seconds: float, said: str) -> None:
    """Ages are shown in the unit that people would use."""
    assert humane.duration(seconds) == said.replace(" ", "\u202f")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (7800, "2 h 10 min"),
        (86399, "23 h 59 min"),
        (86400, "1 d"),
        (270000, "3 d 3 h"),
    ],
)
def test_lasting_states_have_two_units(seconds: float, said: str) -> None:
    """How long something lasts is said as exactly as people need it, and never longer than it lasted."""
    assert str(humane.lasting(seconds)).replace("\u202f", " ") == said


def idle_row(**changes: Any) -> ContainerRow:
    return replace(a_row(utilization_ratio=0.0, state=State.IDLE_HELD), **changes)


def since(row: ContainerRow, *, ever_active: bool = True, from_start: bool = True) -> list[str]:
    """What the page says of the age of a row's idleness."""
    clock = IdleClock(NOW - 7800, ever_active=ever_active, from_start=from_start, seen_at=0.0)
    published = a_published(containers=(row,), ledger=Ledger(idle_clocks={use_key(row): clock}))
    page = NodePage(BUILD, 5.0).draw(published).decode().replace("\u202f", " ")
    return re.findall(r'<span class="sub since">(.*?)</span>', page)


def test_idle_holder_says_since_when() -> None:
    """Beside the state stands how long it lasts: since it last worked, since it started, or since it is watched."""
    assert since(idle_row()) == ["idle for 2 h 10 min"]
    assert since(idle_row(), ever_active=False) == ["never active, 2 h 10 min"]
    assert since(idle_row(), ever_active=False, from_start=False) == ["idle for 2 h 10 min that we watched"]
    assert since(idle_row(), from_start=False) == ["idle for 2 h 10 min"]


@pytest.mark.parametrize(
    "row",
    [
        a_row(),
        idle_row(utilization_ratio=None, state=State.UNKNOWN),
        idle_row(allocations=(), uses_unheld=True, state=State.UNKNOWN),
    ],
    ids=["active", "not measured", "holds nothing"],
)
def test_nobody_else_has_an_age_of_idleness(row: ContainerRow) -> None:
    """Who works, who could not be measured and who holds nothing is not said to be idle for any time."""
    assert since(row) == []


def test_refused_state_file_is_explained_without_a_loss_that_is_not_there() -> None:
    """A source that answers and has a reason says the reason; what its absence would cost is said of absent ones only."""
    kept = {"state_file": SourceHealth(up=True, reason="refused_damaged", detail="counting began at 0")}
    text = drawn(a_published(sources=kept)).text
    assert wording.REASONS[MissingReason.REFUSED_DAMAGED] in text
    assert wording.LOSSES["state_file"] not in text
    failing = {"state_file": SourceHealth(up=False, reason="disk_full")}
    assert wording.LOSSES["state_file"] in drawn(a_published(sources=failing)).text


@pytest.mark.parametrize("identity", ["GPU-x", "", "odd", "-"])
def test_short_uuid_of_an_odd_identity_is_itself(identity: str) -> None:
    """What is no UUID is not cut."""
    assert humane.short_uuid(identity) == identity
