"""The command itself: quick to answer, and it loads only what it is asked for."""

import subprocess
import sys
from importlib.metadata import version

from click.testing import CliRunner

from headrace.cli import main


def test_help_lists_the_nouns() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert "  log    Look into the files of a log.\n" in result.output
    assert "  start  Start one broker" in result.output


def test_the_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert (result.exit_code, result.output) == (0, f"headrace {version('headrace')}\n")


def test_an_unknown_noun_is_refused() -> None:
    result = CliRunner().invoke(main, ["logs"])
    assert result.exit_code == 2
    assert "No such command 'logs'" in result.output


def test_help_loads_neither_the_log_nor_the_protocol_nor_rich() -> None:
    code = (
        "import sys\n"
        "from headrace.cli import main\n"
        "try:\n"
        "    main(['log', 'dump', '--help'])\n"
        "finally:\n"
        "    loaded = [name for name in sys.modules if name.startswith(('headrace.', 'rich', 'fastcrc'))]\n"
        "    print(sorted(loaded), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "['headrace.cli', 'headrace.cli.log']\n"
