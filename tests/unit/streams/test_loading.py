import os
from pathlib import Path

import pytest

from headrace.streams.loading import CannotLoadError, is_file, load_app, own_modules

ONE = 'from headrace.streams import App\n\napp = App("sales", "localhost:9092")\n'


def written(directory: Path, text: str, name: str = "pipeline.py") -> str:
    (directory / name).write_text(text)
    return str(directory / name)


def test_the_one_app_of_a_file(tmp_path: Path) -> None:
    assert load_app(written(tmp_path, ONE + "same = app\n")).name == "sales"


def test_one_of_several_by_its_name(tmp_path: Path) -> None:
    file = written(tmp_path, ONE + 'other = App("other", "localhost:9092")\n')
    assert load_app(f"{file}:other").name == "other"
    with pytest.raises(CannotLoadError, match=f"several apps: app, other. Say which one: {file}:app"):
        load_app(file)
    with pytest.raises(CannotLoadError, match=r"no app 'othr'\. Did you mean other\?"):
        load_app(f"{file}:othr")
    with pytest.raises(CannotLoadError, match=r"no app 'x'\. Its apps are: app, other\."):
        load_app(f"{file}:x")


def test_what_stands_beside_it_can_be_imported_and_is_its_own(tmp_path: Path) -> None:
    written(tmp_path, 'NAME = "helped"\n', "pipeline_helper_for_test.py")
    text = (
        "from headrace.streams import App\nimport pipeline_helper_for_test as it\n\n"
        'app = App(it.NAME, "localhost:9092")\n'
    )
    assert load_app(written(tmp_path, text)).name == "helped"
    names = {module.__name__ for module in own_modules(str(tmp_path))}
    assert names == {"headrace_pipeline_pipeline", "pipeline_helper_for_test"}


def test_a_virtual_environment_beside_it_is_not_its_own_but_a_file_inside_of_one_is(tmp_path: Path) -> None:
    inside = tmp_path / ".venv" / "site-packages"
    inside.mkdir(parents=True)
    load_app(written(inside, ONE, "installed.py"))
    names = {module.__name__ for module in own_modules(str(tmp_path))}
    assert "headrace_pipeline_installed" not in names
    assert {module.__name__ for module in own_modules(str(inside))} == {"headrace_pipeline_installed"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1\n", "has no app: it must make one at its top level"),
        ("\nimport nothing_that_exists\n", "line 2: ModuleNotFoundError: No module named 'nothing_that_exists'"),
        ("def broken(:\n", "cannot be loaded: SyntaxError"),
        ("raise SystemExit(3)\n", r"ended the program while it was loaded \(exit code 3\).*__main__"),
        (ONE + 'app.stream("orders", value=3)\n', "line 4: PlanError: value of stream"),
    ],
)
def test_why_a_file_has_none(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(CannotLoadError, match=sentence):
        load_app(written(tmp_path, text))


def test_a_file_that_is_not_there_or_is_no_python(tmp_path: Path) -> None:
    with pytest.raises(CannotLoadError, match=r"there is no file .*nothing\.py"):
        load_app(str(tmp_path / "nothing.py"))
    with pytest.raises(CannotLoadError, match=r"its name must end in \.py"):
        load_app(written(tmp_path, ONE, "pipeline.txt"))


@pytest.mark.parametrize(
    ("text", "answer"),
    [("sales.py", True), ("sales.py:app", True), (f"dir{os.sep}sales", True), ("sales", False), ("sales.eu", False)],
)
def test_files_and_names_of_apps_are_told_apart(text: str, answer: bool) -> None:
    assert is_file(text) is answer
