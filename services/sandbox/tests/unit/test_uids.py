from sandbox_service.adapters.lanes.uids import BLOCK, Uids


def test_each_service_has_its_own() -> None:
    first, second = Uids(900_000), Uids(900_000)
    assert (first.first, second.first) == (900_000, 900_000 + BLOCK)
    first.release()
    third = Uids(900_000)
    assert third.first == 900_000
    second.release()
    third.release()
