from ratchet.trainer.v1 import trainer_pb2
from trainer_service.domain.spec.hyperparameters import ROWS

from .hyperparameters import PAGE, comments, written


def test_the_page_has_the_rows() -> None:
    page = PAGE.read_text()
    assert page == written(page), "run .venvs/light/bin/python -m tests.docs.hyperparameters"


def test_a_row_is_a_field_of_the_proto() -> None:
    assert set(ROWS) == set(trainer_pb2.Hyperparameters.DESCRIPTOR.fields_by_name)
    assert [name for name, comment in comments().items() if not comment] == []
