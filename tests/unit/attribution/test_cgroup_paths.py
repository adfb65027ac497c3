"""The shapes of /proc/<pid>/cgroup that runtimes, drivers and nested systems write."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.cgroup import CgroupPlace, parse_cgroup
from exporter.model.ids import ContainerId

RECORDED = Path(__file__).parents[2] / "fixtures" / "cgroups"
UID = "0a1b2c3d-1111-4222-8333-444455556666"
UID_ = UID.replace("-", "_")
OTHER = "ffffffff-1111-4222-8333-444455556666"
OTHER_ = OTHER.replace("-", "_")
HASH = "7260904bbd08e72e4dff95d9fccd2ee8"
ID = ContainerId("a" * 60 + "0001")
INNER = ContainerId("b" * 60 + "0002")
NODE = ContainerId("c" * 60 + "0003")
SERVICE = "/system.slice/containerd.service"
BURSTABLE = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice"
SCOPE = f"{BURSTABLE}/cri-containerd-{ID}.scope"

IN_CONTAINER = {
    "containerd, burstable": f"0::{SCOPE}",
    "containerd, guaranteed: no QoS level": f"0::/kubepods.slice/kubepods-pod{UID_}.slice/cri-containerd-{ID}.scope",
    "CRI-O, best effort": f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID_}.slice/crio-{ID}.scope",
    "CRI-O with crun: sub-cgroup": f"0::{BURSTABLE}/crio-{ID}.scope/container",
    "cri-dockerd": f"0::{BURSTABLE}/docker-{ID}.scope",
    "podman below kubepods": f"0::{BURSTABLE}/libpod-{ID}.scope",
    "cgroupfs, burstable (GKE)": f"0::/kubepods/burstable/pod{UID}/{ID}",
    "cgroupfs, guaranteed": f"0::/kubepods/pod{UID}/{ID}",
    "cgroupfs, best effort, CRI-O": f"0::/kubepods/besteffort/pod{UID}/crio-{ID}",
    "v1, one controller": f"12:pids:/kubepods/burstable/pod{UID}/{ID}",
    "v1, named hierarchy": f"1:name=systemd:{BURSTABLE}/docker-{ID}.scope",
    "kubelet systemd, containerd cgroupfs": f"0::{SERVICE}/kubepods-besteffort-pod{UID_}.slice:cri-containerd:{ID}",
    "the same on v1": f"11:perf_event:/kubepods-besteffort-pod{UID_}.slice:cri-containerd:{ID}",
    "Talos": f"0::/podruntime.slice/containerd.service/kubepods-burstable-pod{UID_}.slice:cri-containerd:{ID}",
    "kind, systemd": (
        f"0::/docker/{NODE}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
        f"kubelet-kubepods-besteffort-pod{UID_}.slice/cri-containerd-{ID}.scope"
    ),
    "kind below docker's scope": (
        f"0::/system.slice/docker-{NODE}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
        f"kubelet-kubepods-besteffort-pod{UID_}.slice/cri-containerd-{ID}.scope"
    ),
    "k3d, cgroupfs": f"0::/system.slice/docker-{NODE}.scope/kubelet/kubepods/burstable/pod{UID}/{ID}",
    "minikube, v1": f"1:cpuset:/docker/{NODE}/kubepods/besteffort/pod{UID}/{ID}",
    "from inside kind's node": f"0::/../../kubelet-kubepods-besteffort-pod{UID_}.slice/cri-containerd-{ID}.scope",
    "a node below a prefix of its own": f"0::/lab/kubepods.slice/kubepods-pod{UID_}.slice/cri-containerd-{ID}.scope",
    "systemd in the container": f"0::{SCOPE}/system.slice/jupyter.service",
    "systemd in the container, init": f"0::{SCOPE}/init.scope",
    "Ray's workers": f"0::{SCOPE}/ray-node_abc123/user/workers",
    "Ray's own processes": f"0::{SCOPE}/ray-node_abc123/system/leaf",
    "docker in the container": f"0::{SCOPE}/docker/{INNER}",
    "podman in the container": f"0::{BURSTABLE}/crio-{ID}.scope/libpod_parent/libpod-{INNER}",
    "sysbox, v1": f"4:memory:/kubepods/besteffort/pod{UID}/crio-{ID}/syscont-cgroup-root/init.scope",
    "private view, systemd, same QoS": f"0::/../../kubepods-burstable-pod{UID_}.slice/cri-containerd-{ID}.scope",
    "private view, cgroupfs, same QoS": f"0::/../../pod{UID}/{ID}",
    "private view, systemd, other QoS": f"0::/../../../kubepods-pod{UID_}.slice/cri-containerd-{ID}.scope",
    "private view, cgroupfs, other QoS": f"0::/../../../pod{UID}/{ID}",
    "a zombie whose cgroup is gone": f"0::{SCOPE} (deleted)",
    "a path with colons further in": f"0::{SCOPE}/weird:name:here",
    "upper-case UID": f"0::/kubepods/pod{UID.upper()}/{ID}",
    "kata, sandbox cgroup only": f"0::/kubepods/burstable/pod{UID}/kata_{ID}",
}

IN_POD_ONLY = {
    "the pod's own cgroup": f"0::{BURSTABLE}",
    "kata, v1, sandbox by another name": f"3:memory:/kubepods/pod{UID}/kata_sandbox-1",
    "an id of the wrong length": f"0::/kubepods/pod{UID}/{ID[:-1]}",
    "an id in upper case": f"0::/kubepods/pod{UID}/{ID.upper()}",
    "a unit of systemd": f"0::{BURSTABLE}/system.slice",
}

NO_POD = {
    "envbox: docker at the host's root": (f"0::/docker/{INNER}", CgroupPlace(container_id=INNER)),
    "containerd without a parent": (f"0::/k8s.io/{INNER}", CgroupPlace(container_id=INNER)),
    "kata's overhead": (f"3:memory:/kata_overhead/{INNER}", CgroupPlace(container_id=INNER)),
    "podman on the host": (f"0::/machine.slice/libpod-{INNER}.scope/container", CgroupPlace(container_id=INNER)),
    "podman's monitor on the host": (
        f"0::/machine.slice/libpod-conmon-{INNER}.scope",
        CgroupPlace(unit=f"libpod-conmon-{INNER}.scope"),
    ),
    "a service": ("0::/system.slice/ollama.service", CgroupPlace(unit="ollama.service")),
    "a user's session": ("0::/user.slice/user-1000.slice/session-3.scope", CgroupPlace(unit="session-3.scope")),
    "a user's service": (
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/vscode.scope",
        CgroupPlace(unit="user@1000.service"),
    ),
    "slurm": ("0::/system.slice/slurmstepd.scope/job_7/step_0", CgroupPlace(unit="slurmstepd.scope")),
    "the root": ("0::/", CgroupPlace()),
    "our own container, private view": ("0::/", CgroupPlace()),
    "a process of the host, private view": ("0::/../../../../..", CgroupPlace(relative=True)),
    "our own pod's other container, systemd": (
        f"0::/../cri-containerd-{INNER}.scope",
        CgroupPlace(container_id=INNER, relative=True),
    ),
    "our own pod's other container, cgroupfs": (f"0::/../{INNER}", CgroupPlace(container_id=INNER, relative=True)),
    "no path at all": ("garbage", CgroupPlace()),
    "an empty line": ("", CgroupPlace()),
    "a UID of the wrong length": (f"0::/kubepods/pod{UID}0/x", CgroupPlace()),
    "a UID without the word": (f"0::/kubepods/{UID}/x", CgroupPlace()),
    "a word before the word": (f"0::/kubepods/tripod{UID}/x", CgroupPlace()),
}


@pytest.mark.parametrize("line", IN_CONTAINER.values(), ids=IN_CONTAINER.keys())
def test_container_of_a_pod_names_both(line: str) -> None:
    """Every known shape of a container's path gives its pod's UID and its id (PID-01, PID-03)."""
    place = parse_cgroup([line])
    assert (place.pods[0].pod_uid, place.pods[0].container_id) == (UID, ID)
    assert place.relative is ("/../" in line)
    assert not place.ambiguous


@pytest.mark.parametrize("line", IN_POD_ONLY.values(), ids=IN_POD_ONLY.keys())
def test_pod_without_a_container_names_the_pod_only(line: str) -> None:
    """What is not certainly a container's cgroup gives the pod, and no container."""
    [place] = parse_cgroup([line]).pods
    assert (place.pod_uid, place.container_id, place.conmon) == (UID, None, False)


@pytest.mark.parametrize(("line", "expected"), NO_POD.values(), ids=NO_POD.keys())
def test_path_without_a_pod_says_what_else_it_is(line: str, expected: CgroupPlace) -> None:
    """Without a pod in the path there is a container id, a unit, or nothing, and never a pod."""
    assert parse_cgroup([line]) == expected


@pytest.mark.parametrize("driver", ["systemd", "cgroupfs"])
def test_static_pod_keeps_its_hash_as_uid(driver: str) -> None:
    """The 32 hex digits of a static pod's configuration stand in place of a UID (PID-11)."""
    path = f"/kubepods.slice/kubepods-pod{HASH}.slice/crio-{ID}.scope" if driver == "systemd" else f"/kubepods/pod{HASH}/{ID}"
    [place] = parse_cgroup([f"0::{path}"]).pods
    assert (place.pod_uid, place.container_id) == (HASH, ID)


@pytest.mark.parametrize("name", ["crio-conmon", "libpod-conmon"])
def test_monitor_scope_is_in_the_pod_and_no_container(name: str) -> None:
    """The monitor's scope holds a container's id without being that container (PID-13)."""
    [place] = parse_cgroup([f"0::{BURSTABLE}/{name}-{ID}.scope"]).pods
    assert (place.pod_uid, place.container_id, place.conmon) == (UID, None, True)


def test_hybrid_hierarchy_believes_the_line_that_names_a_pod() -> None:
    """A unified line that names the runtime's own service does not hide the pod in the other lines."""
    lines = [f"12:pids:/kubepods/burstable/pod{UID}/{ID}", "1:name=systemd:/", "0::/system.slice/containerd.service"]
    for order in (lines, lines[::-1]):
        [place] = parse_cgroup(order).pods
        assert (place.pod_uid, place.container_id) == (UID, ID)


def test_kind_node_id_beside_the_pod_is_never_taken() -> None:
    """A line with the node container's id beside lines with the pod changes nothing (PID-03)."""
    lines = [f"1:cpuset:/docker/{NODE}/kubepods/besteffort/pod{UID}/{ID}", f"0::/docker/{NODE}/system.slice/containerd.service"]
    place = parse_cgroup(lines)
    assert (place.pods[0].pod_uid, place.pods[0].container_id, place.container_id) == (UID, ID, None)


def test_hierarchies_with_different_pods_are_ambiguous() -> None:
    """Lines of cgroup v1 that name different outermost pods cannot both be believed."""
    lines = [f"4:memory:/kubepods/pod{UID}/{ID}", f"8:pids:/kubepods/pod{OTHER}/{INNER}"]
    assert parse_cgroup(lines).ambiguous
    assert parse_cgroup(lines[::-1]).pods == parse_cgroup(lines).pods


def test_hierarchies_with_different_containers_of_one_pod_name_the_pod_only() -> None:
    """Where the lines agree on the pod and not on the container, the container is not known."""
    place = parse_cgroup([f"4:memory:/kubepods/pod{UID}/{ID}", f"8:pids:/kubepods/pod{UID}/{INNER}"])
    assert not place.ambiguous
    assert [(one.pod_uid, one.container_id) for one in place.pods] == [(UID, None)]


@pytest.mark.parametrize(
    "forged",
    [
        f"kubepods-pod{OTHER_}.slice/cri-containerd-{INNER}.scope",
        f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{OTHER_}.slice/cri-containerd-{INNER}.scope",
        f"kubepods/pod{OTHER}/{INNER}",
    ],
)
def test_forged_child_cgroup_stands_behind_the_real_pod(forged: str) -> None:
    """A child that a container made up comes after the container's own pod, and takes nothing from it."""
    place = parse_cgroup([f"0::{SCOPE}/{forged}"])
    assert [(one.pod_uid, one.container_id) for one in place.pods] == [(UID, ID), (OTHER, INNER)]


def test_forged_children_in_one_hierarchy_do_not_make_it_ambiguous() -> None:
    """A container cannot hide by making different children in different hierarchies."""
    place = parse_cgroup([f"4:memory:{SCOPE}", f"8:pids:{SCOPE}/kubepods-pod{OTHER_}.slice/cri-containerd-{INNER}.scope"])
    assert not place.ambiguous
    assert place.pods[0].container_id == ID


def test_own_uid_forged_with_another_container_keeps_the_outer_one() -> None:
    """A container cannot take the name of another container of its own pod."""
    place = parse_cgroup([f"0::{SCOPE}/kubepods-pod{UID_}.slice/cri-containerd-{INNER}.scope"])
    assert [(one.pod_uid, one.container_id) for one in place.pods] == [(UID, ID)]


def test_nested_kubelet_names_both_pods_outermost_first() -> None:
    """A cluster in a pod shows its own pods behind the pod that it runs in."""
    place = parse_cgroup([f"0::/kubepods/burstable/pod{UID}/{ID}/docker/{NODE}/kubelet/kubepods/pod{OTHER}/{INNER}"])
    assert [one.pod_uid for one in place.pods] == [UID, OTHER]


def _recorded(name: str) -> list[tuple[str, list[str]]]:
    """(header, cgroup lines) of every recorded process."""
    blocks: list[tuple[str, list[str]]] = []
    for line in (RECORDED / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            blocks.append((line, []))
        else:
            blocks[-1][1].append(line)
    return [block for block in blocks if block[1]]


@pytest.mark.parametrize("name", ["cgroupfs-driver.txt", "systemd-driver.txt", "static-pod.txt"])
def test_recorded_processes_resolve_to_what_the_runtime_said(name: str) -> None:
    """On a real node every container's lines give the UID and the id that the runtime knows it by."""
    blocks = _recorded(name)
    assert blocks
    for header, lines in blocks:
        said = re.search(r"uid=(\S+) id=(\S+)", header)
        assert said is not None
        [place] = parse_cgroup(lines).pods
        assert (place.pod_uid, place.container_id) == said.groups()


@pytest.mark.parametrize(
    ("private", "host"),
    [("private-view-cgroupfs.txt", "cgroupfs-driver.txt"), ("private-view-systemd.txt", "systemd-driver.txt")],
)
def test_recorded_private_view_resolves_everybody_but_the_host_and_ourselves(private: str, host: str) -> None:
    """From a private cgroup namespace other pods keep their UID; the host's PID 1 and our own process show none (PID-06)."""
    by_pid = {header.rpartition("pid=")[2]: parse_cgroup(lines).pods for header, lines in _recorded(host)}
    seen = {header.rpartition(" ")[2]: parse_cgroup(lines) for header, lines in _recorded(private)}
    others = seen.keys() - {"1", "self"}
    assert others
    assert {pid: seen[pid].pods for pid in others} == {pid: by_pid[pid] for pid in others}
    assert all(seen[pid].relative for pid in others)
    assert (seen["1"].pods, seen["1"].container_id, seen["1"].relative) == ((), None, True)
    assert seen["self"] == CgroupPlace()


WORDS = (
    f"/ .. : 0:: 4:memory: pod{UID} kubepods-pod{UID_}.slice pod{HASH} pod kubepods {ID} {INNER} crio-{ID}.scope "
    f"cri-containerd-{INNER}.scope crio-conmon-{ID}.scope \x00 é init.scope"
)
PIECES = st.sampled_from([*WORDS.split(" "), " (deleted)", "\n"])
LINES = st.lists(st.one_of(st.text(max_size=80), st.lists(PIECES, max_size=10).map("".join)), max_size=5)


@given(LINES)
def test_any_text_is_read_and_nothing_is_made_up(lines: list[str]) -> None:
    """No text raises, and every UID, container id and unit that comes out stood in the text."""
    place = parse_cgroup(lines)
    text = "\n".join(lines)
    folded = text.replace("_", "-").lower()
    assert all(pod.pod_uid in folded and re.fullmatch(r"[0-9a-f-]{32,36}", pod.pod_uid) for pod in place.pods)
    assert all(pod.container_id is None or pod.container_id in text for pod in place.pods)
    assert place.container_id is None or place.container_id in text
    assert place.unit in text
    assert place == parse_cgroup(lines[::-1]) or place.container_id or place.unit
