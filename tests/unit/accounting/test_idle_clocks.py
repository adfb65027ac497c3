"""Since when a container has not worked, and whether it ever has."""

from dataclasses import dataclass, field, replace

from exporter.accounting.idle import advance_clock, kept_clocks, use_key, works
from exporter.model.activity import Activity
from exporter.model.attribution import ContainerRow
from exporter.model.ledger import IdleClock, LedgerRules, UseKey
from tests.unit.accounting.rows import CYCLE_SECONDS, a_holder, a_user, spans, steady

BUSY, QUIET = steady(0.5), steady(0.0)
BEGAN = 10_000.0
RULES = LedgerRules(ended_retention_seconds=60.0)


@dataclass
class Watch:
    """Cycles of five seconds over one container; watching began at `BEGAN`."""

    started: float | None = BEGAN + 100
    now: float = BEGAN + 100
    clock: IdleClock | None = None
    found: list[IdleClock] = field(default_factory=list)

    def cycle(self, activity: Activity | None, *beside: ContainerRow, watched: bool = True) -> IdleClock:
        """One cycle with this activity, and others on the device."""
        self.now += CYCLE_SECONDS
        row = a_holder(activity=activity, started_timestamp_seconds=self.started)
        self.clock = advance_clock(
            self.clock,
            row,
            active=works(row, beside, RULES.active_above_ratio),
            timestamp_seconds=self.now,
            watching_since_timestamp_seconds=BEGAN,
            watched=watched,
            clock_seconds=self.now - BEGAN,
        )
        return self.clock


def test_container_that_worked_in_a_cycle_was_active_then() -> None:
    """One sample above the threshold is work, however low the mean of the cycle."""
    watch = Watch()
    watch.cycle(QUIET)
    active = watch.cycle(spans((4.9, 0.0), (0.1, 0.02)))
    assert active.last_active_timestamp_seconds == watch.now
    quiet = watch.cycle(QUIET)
    assert quiet.last_active_timestamp_seconds == watch.now - CYCLE_SECONDS
    assert quiet.ever_active
    assert quiet.from_start


def test_container_that_never_worked_is_idle_since_it_was_first_seen() -> None:
    """An exporter that starts beside a pod of a week does not call it idle for a week."""
    watch = Watch(started=BEGAN - 7 * 86_400)
    watch.cycle(QUIET)
    watch.cycle(QUIET)
    clock = watch.cycle(QUIET)
    assert clock.last_active_timestamp_seconds == BEGAN + 100 + CYCLE_SECONDS
    assert not clock.ever_active
    assert not clock.from_start


def test_container_watched_from_its_start_can_be_said_never_to_have_worked() -> None:
    """`Never used` is another finding than `went quiet`."""
    watch = Watch()
    clock = watch.cycle(QUIET)
    assert (clock.ever_active, clock.from_start) == (False, True)


def test_time_that_was_not_measured_takes_the_right_to_say_never() -> None:
    """It may have worked then; once it has been seen at work, a gap changes nothing."""
    watch = Watch()
    watch.cycle(QUIET)
    assert not watch.cycle(None).from_start
    gap = Watch()
    gap.cycle(QUIET)
    assert not gap.cycle(QUIET, watched=False).from_start
    seen = Watch()
    seen.cycle(BUSY)
    assert seen.cycle(None).from_start


def test_container_without_a_known_start_is_never_said_to_be_watched_from_it() -> None:
    """Unknown is not now."""
    assert not Watch(started=None).cycle(QUIET).from_start


def test_start_in_the_future_of_the_exporter_s_clock_is_when_idling_began() -> None:
    """The later of the container's start and the moment watching began."""
    assert Watch(started=BEGAN + 500).cycle(QUIET).last_active_timestamp_seconds == BEGAN + 500


def test_clock_that_is_set_back_leaves_nobody_active_in_the_future() -> None:
    """Idle since now at the earliest that can be said, and never for less than no time."""
    watch = Watch()
    watch.cycle(BUSY)
    watch.now -= 1000.0
    assert watch.cycle(QUIET).last_active_timestamp_seconds == watch.now


def test_clock_of_an_ended_container_is_kept_for_a_while_and_then_forgotten() -> None:
    """A short outage of the kubelet does not make anybody look fresh; churn does not fill the memory."""
    key: UseKey = use_key(a_holder(activity=QUIET))
    clocks = {key: IdleClock(1.0, ever_active=True, from_start=True, seen_at=100.0)}
    assert kept_clocks(clocks, 160.0, RULES) == clocks
    assert kept_clocks(clocks, 160.1, RULES) == {}


def test_sidecar_that_works_on_its_pod_s_device_keeps_the_clock_going() -> None:
    """It holds nothing, and what it does there is what the pod holds the device for; a guest of another pod is not."""
    watch = Watch()
    watch.cycle(QUIET)
    holder = a_holder(activity=QUIET)
    sidecar = a_user(activity=BUSY)
    guest = watch.cycle(QUIET, sidecar)
    assert guest.last_active_timestamp_seconds < watch.now
    own = replace(sidecar, container=replace(holder.container, container="side"))
    assert watch.cycle(QUIET, own).last_active_timestamp_seconds == watch.now
