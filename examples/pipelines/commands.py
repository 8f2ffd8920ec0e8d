"""A pipeline by commands: it is run, looked at and asked; a mistake is mended, and its dead letters are run again.

Run it: `python examples/pipelines/commands.py` (needs `pip install headrace[spark]`)
"""

import os
import tempfile
from pathlib import Path

import headrace
from headrace.cli import main

PIPELINE = """
from headrace.streams import App, Json

app = App("prices", "localhost:9092", dead_letters="prices.dead", master="local[2]")


def in_cents(row):
    return {"cents": round(float(row["price"]) * 100)}


prices = app.stream("prices", key="item", value=Json("price string"), name="prices")
prices.map_values(in_cents, schema="cents long", name="in_cents").to_table(name="cents").to("cents")
"""
MENDED = PIPELINE.replace('row["price"]', 'row["price"].replace(",", ".")')


def command(line: str) -> None:
    """As if it were typed; in this process, so that Spark is started once."""
    print(f"$ headrace {line}")
    main(line.split(), standalone_mode=False)
    print()


def story() -> None:
    file = Path("prices.py")
    file.write_text(PIPELINE)
    command("pipeline run prices.py --until-caught-up")
    command("pipeline query prices.py cents")
    command("consume prices.dead --exit --key-separator =")
    file.write_text(MENDED)
    command("pipeline replay-dead prices.py")
    command("pipeline query prices.py cents --key ink")
    command("pipeline replay prices.py --to 1")
    command("pipeline describe prices.py --mermaid")


if __name__ == "__main__":
    with headrace.Broker() as broker, tempfile.TemporaryDirectory() as directory:
        with headrace.Producer(broker.address) as producer:
            for item, price in (("pen", "2.50"), ("ink", "9,90"), ("cup", "4")):
                producer.send("prices", f'{{"price": "{price}"}}'.encode(), key=item, partition=0)
        os.environ |= {"HEADRACE_BOOTSTRAP": broker.address, "XDG_STATE_HOME": directory}
        os.chdir(directory)
        story()
