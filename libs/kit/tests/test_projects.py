import pytest

from ratchet_kit import projects
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.idempotency import Request
from ratchet_kit.ids import new_id, time_of
from ratchet_kit.names import DatasetRef, ModelRef, RewardRef, check_model_name, suggestion
from ratchet_kit.pages import fetch_page
from ratchet_kit.projects import owned_by, project_of, seen_by

ULID = "01JD3MZ5Y1W4C8T9Q2K7V6B0XN"


@pytest.mark.parametrize(
    ("text", "project"),
    [
        ("starter", ""),
        ("acme~coder", "acme"),
        ("acme~coder@3", "acme"),
        ("models/acme~coder/versions/2", "acme"),
        ("s3://bucket/acme~coder/art_1", "acme"),
        (f"run_{ULID}", ""),
        (f"run_{ULID}-acme", "acme"),
        (f"run-run_{ULID}-acme-1", "acme"),
        (f"run-run_{ULID}-1", ""),
        (f"gateway/key_{ULID}-acme", "acme"),
        ("./folder", ""),
        ("~/folder", ""),
    ],
)
def test_whose_a_thing_is_stands_in_its_name(text: str, project: str) -> None:
    assert project_of(text) == project
    for own in ("acme", "beta"):
        shared = not project and ULID not in text
        assert seen_by(text, own) == (own == project or shared)
        assert owned_by(text, own) == (own == project)
    assert seen_by(text, "")
    assert seen_by(text, projects.DEFAULT) == owned_by(text, projects.DEFAULT) == (not project)


@pytest.mark.parametrize("text", [f"run_{ULID}-acme,run_{ULID}-beta", "acme~a=beta~b", f"acme~x/run_{ULID}"])
def test_what_names_anothers_beside_ones_own_is_not_seen(text: str) -> None:
    assert not seen_by(text, "acme")
    assert not owned_by(text, "acme")


def test_others_are_hidden_in_sentences() -> None:
    text = f"waits for run_{ULID}-beta (beta~coder@2) before run_{ULID}-acme of acme~coder:champion"
    hidden = projects.without_others(text, "acme")
    assert hidden == (f"waits for another project's (another project's) before run_{ULID}-acme of acme~coder:champion")
    assert projects.without_others("a ~ b~ c", "acme") == "a ~ another project's c"
    assert projects.without_others(f"made by key_{ULID}", "acme") == "made by the platform's"


def test_ids_carry_the_project_of_the_call() -> None:
    with projects.acting("acme"):
        made = new_id("run")
    with projects.of_owner(made):
        again = new_id("eval")
    with projects.of_owner("starter"):
        default = new_id("run")
    assert (project_of(made), project_of(again), project_of(default), project_of(new_id("run"))) == (
        "acme",
        "acme",
        "",
        "",
    )
    assert time_of(made) is not None


@pytest.mark.parametrize("name", ["acme~coder", "acme~1b.x"])
def test_names_of_projects_are_names(name: str) -> None:
    assert check_model_name(name) == name
    assert str(ModelRef.parse(f"{name}@2")) == f"{name}@2"
    assert DatasetRef.parse(f"{name}@1/train").name == name
    assert str(RewardRef.parse("acme~brevity@2")) == "acme~brevity@2"


@pytest.mark.parametrize(
    "name", ["~coder", "acme~", "a~b~c", "Acme~x", "a" * 21 + "~x", "1a~x", "acme~" + "x" * 59, "acme~x\n"]
)
def test_invalid_names_of_projects_are_none(name: str) -> None:
    with pytest.raises(InvalidArgument):
        check_model_name(name)


async def test_a_page_has_what_the_caller_sees_and_no_hole() -> None:
    stored = [f"{project}model{number}" for number in range(40) for project in ("acme~", "beta~")]

    async def fetch(limit: int, after: str | None) -> list[str]:
        begin = stored.index(after) + 1 if after else 0
        return stored[begin : begin + limit]

    with projects.acting("acme"):
        first = await fetch_page(fetch, str, str, 30, "")
        last = await fetch_page(fetch, str, str, 30, first.next_page_token)
    assert [*first.items, *last.items] == [name for name in stored if name.startswith("acme")]
    assert (len(first.items), len(last.items), last.next_page_token) == (30, 10, "")
    with projects.acting("beta"):
        assert len((await fetch_page(fetch, str, str, 40, "")).items) == 40
    assert len((await fetch_page(fetch, str, str, 100, "")).items) == 80


def test_a_request_id_is_its_projects() -> None:
    keys = set()
    for project in ("", projects.DEFAULT, "acme", "beta"):
        with projects.acting(project):
            keys.add(Request.of("mine", "x").key)
            keys.add(Request.of("mine", "x", owner="key").key)
    assert len(keys) == 6


def test_no_suggestion_names_anothers() -> None:
    known = ["beta~brevity", "brevity"]
    with projects.acting("acme"):
        assert suggestion("acme~brevity", known) == ": did you mean brevity?"
        assert suggestion("beta~brevit", known[:1]) == ""
    assert suggestion("beta~brevit", known) == ": did you mean beta~brevity?"
