import subprocess
import sys
from collections.abc import Callable

import pytest

from headrace.streams import App, PlanError
from tests.unit.streams.pipelines import PIPELINES, new_app
from tests.unit.streams.update_golden import GOLDEN, golden_path, golden_text


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: pipeline.__name__)
def test_the_explanation_of_a_plan_is_as_it_was(pipeline: Callable[[], App]) -> None:
    with open(golden_path(pipeline.__name__), encoding="utf-8") as file:
        assert golden_text(pipeline()) == file.read(), "if that is meant: python -m tests.unit.streams.update_golden"


def test_there_is_no_golden_text_without_its_pipeline() -> None:
    import os

    assert sorted(os.listdir(GOLDEN)) == sorted(f"{pipeline.__name__}.txt" for pipeline in PIPELINES)


def test_an_app_that_writes_nothing_says_so() -> None:
    assert "nothing is written yet" in new_app().explain()


def test_explain_knows_two_styles() -> None:
    with pytest.raises(PlanError, match='"text" or "mermaid"'):
        new_app().explain("dot")  # type: ignore[arg-type]


def test_neither_writing_nor_explaining_a_pipeline_loads_spark_or_arrow() -> None:
    program = (
        "import sys\n"
        "from tests.unit.streams.pipelines import PIPELINES\n"
        "for pipeline in PIPELINES: pipeline().explain('mermaid')\n"
        "print([name for name in ('pyspark', 'py4j', 'pyarrow', 'numpy', 'pandas') if name in sys.modules])\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"
