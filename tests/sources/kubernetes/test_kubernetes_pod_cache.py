"""The pods that list and watch leave behind, and the bounded memory of those deleted."""

from exporter.sources.kubernetes.lines import LineSplitter
from exporter.sources.kubernetes.pod_cache import PodCache
from tests.sources.kubernetes.kubernetes_support import Clock, a_document


def a_cache(clock: Clock, **settings: float) -> PodCache:
    return PodCache(frozenset(), clock, **settings)  # type: ignore[arg-type]  # seconds and counts alike


def named(uid: str, **fields: object) -> dict[str, object]:
    return a_document(metadata={"uid": uid, "name": f"pod-{uid}", **fields})


def test_deleted_pod_is_remembered_for_ten_minutes() -> None:
    """A GPU process can outlive its pod's object; after ten minutes the name is forgotten."""
    clock = Clock()
    cache = a_cache(clock)
    cache.put(named("a"))
    cache.remove(named("a"))
    clock.advance(599.0)
    assert set(cache.store().recently_deleted) == {"a"}
    clock.advance(2.0)
    assert cache.store().recently_deleted == {}


def test_deleted_pods_are_bounded_in_number() -> None:
    """Of a flood of short pods the latest stay."""
    cache = a_cache(Clock(), deleted_kept_most=3)
    for number in range(10):
        cache.put(named(str(number)))
        cache.remove(named(str(number)))
    assert list(cache.store().recently_deleted) == ["7", "8", "9"]


def test_pod_missing_in_a_new_list_was_deleted() -> None:
    """What a list does not name any more went while nobody watched."""
    cache = a_cache(Clock())
    cache.replace([named("a"), named("b")])
    cache.replace([named("b")])
    store = cache.store()
    assert (set(store.pods), set(store.recently_deleted)) == ({"b"}, {"a"})


def test_pod_that_comes_back_is_not_deleted() -> None:
    """A lagging server may list a pod again that was gone: it is in one place only."""
    cache = a_cache(Clock())
    cache.replace([named("a")])
    cache.remove(named("a"))
    cache.replace([named("a")])
    store = cache.store()
    assert (set(store.pods), set(store.recently_deleted)) == ({"a"}, set())


def test_modified_pod_that_is_unknown_is_added() -> None:
    """An event for a pod that no list named is news all the same."""
    cache = a_cache(Clock())
    cache.put(named("a"))
    assert set(cache.store().pods) == {"a"}


def test_deletion_of_an_unknown_pod_is_remembered() -> None:
    """A pod that came and went within one gap can still own a process."""
    cache = a_cache(Clock())
    cache.remove(named("a"))
    assert (set(cache.store().pods), set(cache.store().recently_deleted)) == (set(), {"a"})


def test_generation_grows_with_visible_changes_only() -> None:
    """A heartbeat in the status that we do not keep asks nobody for anything; nor does the same list again."""
    cache = a_cache(Clock())
    cache.replace([named("a")])
    generation = cache.generation
    cache.put({**named("a"), "status": {"conditions": [{"lastHeartbeatTime": "now"}]}})
    cache.replace([named("a")])
    assert cache.generation == generation
    cache.put(named("a", labels={"team": "red"}))
    assert cache.generation == generation + 1


def test_malformed_objects_cost_themselves_and_are_counted() -> None:
    """Nine good pods beside one that is none; the count starts again with the next list."""
    cache = a_cache(Clock())
    cache.replace([*(named(str(number)) for number in range(9)), None, "text", {"metadata": {}}])
    cache.put({"metadata": None})
    store = cache.store()
    assert (len(store.pods), store.malformed) == (9, 4)
    cache.replace([named("a")])
    assert cache.store().malformed == 0


def test_malformed_change_leaves_the_known_pod() -> None:
    """A broken event about a pod does not take it away."""
    cache = a_cache(Clock())
    cache.put(named("a"))
    cache.put(a_document(metadata={"uid": "a", "name": None}))
    assert set(cache.store().pods) == {"a"}


def test_store_in_a_readers_hand_does_not_change() -> None:
    """Changes replace what readers hold, they do not reach into it."""
    cache = a_cache(Clock())
    cache.put(named("a"))
    before = cache.store()
    cache.put(named("b"))
    cache.remove(named("a"))
    assert (set(before.pods), set(before.recently_deleted)) == ({"a"}, set())


def test_line_above_the_bound_is_dropped_whole_and_the_next_is_good() -> None:
    """However it is cut into chunks, a line that is too long costs itself."""
    splitter = LineSplitter(max_line_bytes=10)
    chunks = [b"good\n123456", b"7890", b"1 and more", b" of it\nnext\n", b"\n\nla", b"st\nrest"]
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    assert lines == [b"good", b"next", b"last"]
    assert (splitter.take_too_long(), splitter.take_too_long()) == (1, 0)
