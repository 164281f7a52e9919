"""A disk that is full, under the files of gateway, eval, sandbox and registry: databases, artifacts, logs. What is
asked for is refused with a clear error or waits, nothing that was accepted is lost, and all goes on once there is
space."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from google.rpc import code_pb2

from gateway_service.adapters.sql.completions import SqlCompletionLog
from gateway_service.domain.traffic.record import Arm, CompletionRecord
from gateway_service.domain.traffic.recorder import Recorder
from gateway_service.domain.traffic.redaction import Redaction
from ratchet.registry.v1 import registry_pb2
from ratchet_client import ApiError, Client
from ratchet_kit.errors import Unavailable
from ratchet_kit.names import VersionRef
from ratchet_kit.sql import Database

from .accepted import SPEC, Evaluation, Versions, tiny_model
from .disks import Disk, small_disk
from .judges import KEY, Judges, one_of_each, user

pytestmark = [pytest.mark.chaos, pytest.mark.e2e, pytest.mark.timeout(1500)]

DISK_MIB = 400
"""A copy leaves 256 MiB free."""
FULL_S = 8.0


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    with small_disk(tmp_path_factory.mktemp("disks") / "disk", DISK_MIB) as small:
        yield small


@pytest.fixture(scope="module")
def judges(disk: Disk) -> Iterator[Judges]:
    with one_of_each(disk.folder) as running:
        yield running


@pytest.fixture
def client(judges: Judges) -> Iterator[Client]:
    with Client(judges.urls[0], KEY, timeout_s=60) as client:
        yield client


def refused(call: Callable[[], object]) -> ApiError:
    with pytest.raises(ApiError) as error:
        call()
    return error.value


def test_no_byte_is_left(judges: Judges, disk: Disk, client: Client) -> None:
    source = tiny_model(disk.folder / "model", 1)
    with user(judges) as caller:
        evaluation = Evaluation.begin(caller)
        disk.fill()
        try:
            for call in (
                lambda: client.keys.create("one more"),
                lambda: client.models.create_version("full", str(source)),
                lambda: client.evaluations.create(SPEC),
            ):
                error = refused(call)
                assert (error.code, error.status) == ("UNAVAILABLE", 503), error
                assert "no space is left on its disk" in str(error)
            assert client.evaluations.get(evaluation.id).samples_done >= 10, "what is there can be read"
            assert [key.name for key in client.keys.list()] == ["bootstrap"]
            time.sleep(FULL_S)
            assert not evaluation.is_over(client)
        finally:
            disk.free()
        evaluation.check(caller)
        Versions.begin(caller, disk.folder).check(caller)
        assert client.keys.create("one more").secret
    judges.are_up()


def test_a_version_that_has_no_room_fails_and_says_so(judges: Judges, disk: Disk, client: Client) -> None:
    source = tiny_model(disk.folder / "model-2", 2)
    disk.fill(leave_bytes=32 << 20)
    try:
        version = client.models.create_version("large", str(source))
        failed = client.models.wait_version("large", version.ref.number)
    finally:
        disk.free()
    assert failed.state == registry_pb2.Version.STATE_FAILED
    assert failed.failure.code == code_pb2.RESOURCE_EXHAUSTED
    assert "free some space" in failed.failure.message
    assert not list((disk.folder / "artifacts" / "models" / ".incoming").iterdir()), "nothing of it stays"
    again = client.models.create_version("large", str(source))
    assert client.models.wait_version("large", again.ref.number).state == registry_pb2.Version.STATE_READY


def record(number: int) -> CompletionRecord:
    now = datetime.now(UTC)
    texts = ("a text of some length " * 200,)
    version = VersionRef("starter", 1)
    return CompletionRecord(f"cmpl_{number:05}", now, version, Arm.BASELINE, timedelta(seconds=0.5), texts=texts)


async def test_the_gateways_records_wait_for_space(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 16) as disk:
        async with Database.opened(f"sqlite:///{disk.folder}/gateway.db", "gateway_service") as database:
            log = SqlCompletionLog(database)
            recorder = Recorder(log, Redaction([]))
            recorder.record(record(0))
            await recorder.flush()
            disk.fill()
            for number in range(1, 1001):
                recorder.record(record(number))
            with pytest.raises(Unavailable, match="no space is left on its disk"):
                await recorder.flush()
            disk.free()
            await recorder.flush()
            for number in range(1001):
                assert (await log.get(f"cmpl_{number:05}")).texts
