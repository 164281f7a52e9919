from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st

from ratchet_kit import times
from ratchet_kit.ids import new_id, time_of

moments = st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 30), timezones=st.just(timezone(timedelta(hours=5))))


def test_ids_have_the_form_of_a_ulid():
    prefix, ulid = new_id("run").split("_")
    assert prefix == "run"
    assert len(ulid) == 26
    assert set(ulid) <= set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")
    assert ulid[0] <= "7"


def test_ids_sort_in_the_order_they_were_made():
    made = [new_id("run") for _ in range(10_000)]
    assert made == sorted(set(made))


def test_ids_of_several_threads_are_distinct():
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: new_id("run"), range(10_000)))
    assert len(set(made)) == len(made)


def test_the_time_of_an_id():
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    made = time_of(new_id("run"))
    assert made is not None
    assert before <= made <= datetime.now(UTC)
    assert time_of("run_01JD3MZ5Y1W4C8T9Q2K7V6B0XN") == datetime(2024, 11, 20, 2, 3, 38, 817000, UTC)


@pytest.mark.parametrize("id", ["", "run", "run_none", "run_01JD3MZ5Y1W4C8T9Q2K7V6B0XI", "run_" + "Z" * 26])
def test_what_is_no_id_has_no_time(id):
    assert time_of(id) is None


@given(st.timedeltas(timedelta(days=-3650), timedelta(days=3650)))
def test_durations(value):
    assert times.duration_from_proto(times.duration_to_proto(value)) == value


def test_a_duration_that_no_timedelta_holds_is_the_longest_or_shortest():
    assert times.duration_from_proto(Duration(seconds=2**62)) == timedelta.max
    assert times.duration_from_proto(Duration(seconds=-(2**62), nanos=5)) == timedelta.min
    assert times.duration_from_proto(Duration(seconds=10**13)) > timedelta(days=10**8)


def test_a_duration_is_given_in_microseconds():
    assert times.duration_from_proto(Duration(seconds=1, nanos=1_500)) in (
        timedelta(seconds=1, microseconds=1),
        timedelta(seconds=1, microseconds=2),
    )


@given(moments)
def test_timestamps(value):
    back = times.timestamp_from_proto(times.timestamp_to_proto(value))
    assert back == value
    assert back.tzinfo == UTC


def test_a_naive_time_has_no_timestamp():
    with pytest.raises(ValueError, match="time zone"):
        times.timestamp_to_proto(datetime(2026, 1, 1))


def test_the_system_clock_is_aware():
    assert times.SystemClock().now().tzinfo == UTC


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")])
def test_durations_in_words(seconds, text):
    assert times.duration(seconds) == text
