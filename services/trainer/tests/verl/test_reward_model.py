"""A reward model in a job: what it scores, that padding changes nothing of it, and what is refused."""

import asyncio
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the trainer environment")
transformers = pytest.importorskip("transformers", reason="needs the trainer environment")

from ratchet_kit.errors import InvalidArgument  # noqa: E402
from ratchet_problems import CallTest, Message, Problem  # noqa: E402
from trainer_service.job.run.config import JobConfig  # noqa: E402
from trainer_service.job.samples.prompting import conversation_ids  # noqa: E402
from trainer_service.verl.rank.reward_head import with_reward_head  # noqa: E402
from trainer_service.verl.reward_model import RewardModel, _passes  # noqa: E402

pytestmark = pytest.mark.verl

STARTER = Path(__file__).parents[4] / "models/starter"
PROBLEM = Problem("p", "Add x and y.", (CallTest.of([1, 2], 3),), entry_point="add")
ANSWERS = ["x + y", "def add(x, y):\n    return x + y\n", "return x", "def add(x, y):\n    return (x + y) * 1\n"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Untrained, with the starter's tokenizer."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.from_pretrained(STARTER, num_labels=1)
    made = tmp_path / "judge"
    transformers.AutoModelForSequenceClassification.from_config(config).save_pretrained(made)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copyfile(STARTER / name, made / name)
    return made


@pytest.fixture
def make(make_job: Callable[..., JobConfig], folder: Path) -> Callable[[], RewardModel]:
    return lambda: RewardModel(make_job(reward_model_path=str(folder)))


def scores(model: RewardModel, answers: list[str]) -> list[float]:
    return list(asyncio.run(model.scores(PROBLEM, answers)))


def changed(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))


def test_a_score_is_that_of_transformers_for_the_whole_conversation(
    make: Callable[[], RewardModel], folder: Path
) -> None:
    model = make()
    model.load()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    judge = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    expected = []
    for answer in ANSWERS:
        ids = conversation_ids(tokenizer, [Message("user", "Add x and y.")], answer)
        assert tokenizer.decode(ids) == f"<|user|>Add x and y.<|assistant|>{answer}<|end|>"
        expected.append(float(judge(input_ids=torch.tensor([ids])).logits))
    found = scores(model, ANSWERS)
    assert found == pytest.approx(expected, abs=1e-5)
    assert max(found) - min(found) > 0.01


def test_a_model_that_is_loaded_is_its_own(make: Callable[[], RewardModel], folder: Path) -> None:
    """Whatever is written to its file."""
    model = make()
    model.load()
    before = scores(model, ANSWERS)
    file = folder / "model.safetensors"
    with file.open("r+b") as opened:
        opened.seek(file.stat().st_size // 4)
        opened.write(bytes(file.stat().st_size * 3 // 4))
    assert scores(model, ANSWERS) == before


def test_a_score_does_not_depend_on_what_else_is_in_the_pass(make: Callable[[], RewardModel]) -> None:
    model = make()
    model.load()
    together = scores(model, ANSWERS)
    assert together == scores(model, ANSWERS)
    assert together == pytest.approx([scores(model, [answer])[0] for answer in ANSWERS], abs=1e-5)
    assert together == pytest.approx(scores(model, ANSWERS[::-1])[::-1], abs=1e-5)


def test_without_a_token_for_padding_each_is_scored_alone(make: Callable[[], RewardModel], folder: Path) -> None:
    model = make()
    model.load()
    before = scores(model, ANSWERS)
    changed(folder, pad_token_id=None)
    bare = make()
    bare.load()
    assert scores(bare, ANSWERS) == pytest.approx(before, abs=1e-5)


def test_an_answer_that_has_no_room_has_no_score(make: Callable[[], RewardModel]) -> None:
    model = make()
    model.load()
    found = scores(model, ["x + y", "x + y\n" * 300, "return x"])
    assert [math.isnan(score) for score in found] == [False, True, False]
    assert found[::2] == pytest.approx(scores(model, ["x + y", "return x"]), abs=1e-5)


def test_passes_are_in_order_and_hold_so_many_tokens() -> None:
    assert list(_passes([3, 2, 9, 4], 8, padded=True)) == [[0, 1, 3]]
    assert list(_passes([3, 2, 4], 8, padded=False)) == [[0], [1], [2]]
    assert list(_passes([2000, 1000, 100, 100], math.inf, padded=True)) == [[0, 1], [2, 3]]
    assert list(_passes([5000, 10], math.inf, padded=True)) == [[0], [1]]
    assert list(_passes([9], 8, padded=True)) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id2label": {"0": "bad", "1": "good"}}, "cannot be loaded|2 outputs"),
        ({"architectures": ["LlamaForCausalLM"], "vocab_size": 600}, "cannot be loaded"),
    ],
)
def test_a_config_of_something_else_is_refused(
    make: Callable[[], RewardModel], folder: Path, changes: dict[str, object], said: str
) -> None:
    changed(folder, **changes)
    with pytest.raises(InvalidArgument, match=said):
        make().load()


def test_a_head_that_was_never_trained_is_refused(make: Callable[[], RewardModel], folder: Path) -> None:
    shutil.copyfile(STARTER / "model.safetensors", folder / "model.safetensors")
    with pytest.raises(InvalidArgument, match=r"no weights of score\.weight"):
        make().load()


def test_a_token_for_padding_alone_may_have_no_row(make: Callable[[], RewardModel], folder: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"pad_token": "<more>"})
    tokenizer.save_pretrained(folder)
    make().load()


def test_a_tokenizer_of_another_model_is_refused(make: Callable[[], RewardModel], folder: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([f"<more-{number}>" for number in range(200)])
    tokenizer.save_pretrained(folder)
    with pytest.raises(InvalidArgument, match="they do not belong together"):
        make().load()


def test_without_a_chat_template_it_is_refused(make: Callable[[], RewardModel], folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(InvalidArgument, match="has no chat template"):
        make().load()


def test_what_is_trained_gives_at_the_last_token_what_the_exported_gives(folder: Path) -> None:
    def made(seed: int) -> "torch.nn.Module":
        config = transformers.AutoConfig.from_pretrained(STARTER, num_labels=1)
        base = transformers.AutoModelForTokenClassification.from_pretrained(STARTER, config=config)
        return with_reward_head(base, seed).eval()

    trained = made(3)
    assert trained.config.architectures == ["LlamaForTokenClassification"]
    assert torch.equal(trained.score.weight, made(3).score.weight)
    assert not torch.equal(trained.score.weight, made(4).score.weight)
    exported = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    exported.load_state_dict(trained.state_dict())
    tokens = torch.tensor([[5, 6, 7, 8, 1]])
    with torch.no_grad():
        assert trained(tokens).logits[0, -1].tolist() == pytest.approx(exported(tokens).logits[0].tolist(), abs=1e-6)


def test_an_architecture_of_another_kind_is_refused() -> None:
    small = {"vocab_size": 9, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 1}
    config = transformers.GPT2Config(**small, num_labels=1, pad_token_id=0)
    with pytest.raises(InvalidArgument, match="no reward model can be made of a gpt2 model"):
        with_reward_head(transformers.AutoModelForTokenClassification.from_config(config), 0)
