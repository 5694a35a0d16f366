"""How long is waited after failures, and what is remembered of them."""

from __future__ import annotations

from ebbtide.core.operations import scale_up
from ebbtide.core.operations.situation import backoff_until, rest_offers
from ebbtide.model.operation import SlotState
from ebbtide.model.record import CapacityBackoff
from tests.builders import NOW, make_record, make_scale_up, make_settings, make_slot


def test_back_off_doubles_with_every_failure_and_is_capped() -> None:
    waits = [backoff_until(failures, make_settings(), NOW) - NOW for failures in range(1, 10)]
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_back_off_stays_capped_after_any_number_of_failures() -> None:
    assert backoff_until(100_000, make_settings(), NOW) == NOW + 3600


def test_an_offer_that_is_refused_again_is_skipped_again_and_the_others_stay_skipped() -> None:
    record = make_record(
        offer_rests=(CapacityBackoff("a/spot/small", NOW + 5), CapacityBackoff("b/spot/small", NOW + 9))
    )
    slot = make_slot(refused=("a/spot/small", "c/spot/small"))
    assert rest_offers(record, [slot], make_settings(), NOW).offer_rests == (
        CapacityBackoff("b/spot/small", NOW + 9),
        CapacityBackoff("a/spot/small", NOW + 600),
        CapacityBackoff("c/spot/small", NOW + 600),
    )


def test_a_launch_of_one_pool_succeeds_and_leaves_only_the_broken_pool_to_wait() -> None:
    ready = make_slot("op-1", pool="web", state=SlotState.READY, since=NOW)
    operation = make_scale_up(ready)
    held = make_record(
        launching=operation,
        launch_failures=3,
        launch_backoff_until=NOW + 900,
        launch_backoff_offers=("gpu", "a/spot/small", "web"),
    )
    end = scale_up.close(held, operation, make_settings(), NOW)
    assert (end.succeeded, end.record.launch_backoff_offers) == (True, ("gpu",))
