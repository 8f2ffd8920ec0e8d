"""Parts of Apache Kafka's group coordinator, asked through tests/support/kafka/GroupParts.java."""

import json
from pathlib import Path
from typing import Any

from tests.support.kafka_tools import KafkaTools


def ask_kafka(tools: KafkaTools, directory: Path, what: str, questions: list[Any]) -> list[Any]:
    """One answer for each question, as the Java program says it."""
    file = directory / f"{what}.json"
    file.write_text("".join(json.dumps(question) + "\n" for question in questions))
    answers = [json.loads(line) for line in tools.run("GroupParts.java", what, str(file)).splitlines()]
    assert len(answers) == len(questions)
    return answers
