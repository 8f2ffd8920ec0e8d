"""Write the golden texts anew: `python -m tests.unit.streams.update_golden`; read what differs before keeping it."""

import os
from typing import Final

from headrace.streams import App
from tests.unit.streams.pipelines import PIPELINES

GOLDEN: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")


def golden_path(name: str) -> str:
    return os.path.join(GOLDEN, f"{name}.txt")


def golden_text(app: App) -> str:
    """Both forms of `explain`."""
    return f"{app.explain()}\n{app.explain('mermaid')}"


def main() -> None:
    os.makedirs(GOLDEN, exist_ok=True)
    for pipeline in PIPELINES:
        with open(golden_path(pipeline.__name__), "w", encoding="utf-8") as file:
            file.write(golden_text(pipeline()))


if __name__ == "__main__":
    main()
