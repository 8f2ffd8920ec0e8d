"""Apache Kafka's command-line tools, run one after the other in one JVM by tests/support/kafka/Tools.java.

`Both` runs each against Headrace and against Apache Kafka, where they must say the same. Not compared are addresses,
directories, random ids, clocks, and the sentences by which a broker explains an error.
"""

import json
import re
import selectors
import subprocess
from types import TracebackType
from typing import Final, NamedTuple, Self

from tests.support.broker_process import BrokerProcess
from tests.support.kafka import ApacheKafka
from tests.support.kafka_tools import PROGRAMS, KafkaToolError, KafkaTools
from tests.support.waiting import wait_until

BOOTSTRAP: Final = ("--bootstrap-server", "ADDRESS")  # for `Both`, which knows the addresses
TOOL_SECONDS: Final = 60
ANSWER_SECONDS: Final = TOOL_SECONDS + 30.0  # with the start of the JVM
_PACKAGES: Final = {
    "ConfigCommand": "kafka.admin",
    "ConsoleConsumer": "org.apache.kafka.tools.consumer",
    "ConsumerGroupCommand": "org.apache.kafka.tools.consumer.group",
    "ReassignPartitionsCommand": "org.apache.kafka.tools.reassign",
}
_SCRUBBED: Final = (
    (r"127\.0\.0\.1:\d+", "HOST:PORT"),
    (r"(?<=TopicId: )\S+", "ID"),
    (r"(?<=org\.apache\.kafka\.common\.errors\.)(\w+): .*", r"\1"),  # which error, without its sentence
    (r"(?<=Error while executing topic command : ).*", "REASON"),
)


class ToolRun(NamedTuple):
    """How a tool ended."""

    code: int
    output: str
    errors: str


class JavaTools:
    """A JVM that runs tools by their names; it starts with the first of them."""

    def __init__(self, tools: KafkaTools) -> None:
        program = PROGRAMS / "Tools.java"
        java, *options = tools.java(heap="512m", log_level="OFF", classes=tools.compiled(program))
        opened = ["--add-opens", "java.base/java.lang=ALL-UNNAMED"]  # see Tools.java
        self._command = [java, *opened, *options, program.stem]
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, tool: str, *arguments: str, send: str = "") -> str:
        """What it prints on its standard output, when it ends well."""
        code, output, errors = self.end(tool, *arguments, send=send)
        if code != 0:
            raise KafkaToolError(f"{tool} {' '.join(arguments)} ended with {code}:\n{output}{errors}")
        return output

    def end(self, tool: str, *arguments: str, send: str = "") -> ToolRun:
        """How it ends."""
        package = _PACKAGES.get(tool, "org.apache.kafka.tools")
        request = {"main": f"{package}.{tool}", "arguments": arguments, "input": send, "seconds": TOOL_SECONDS}
        answer = json.loads(self._ask(json.dumps(request).encode() + b"\n"))
        return ToolRun(answer["code"], answer["output"], answer["errors"])

    def _ask(self, line: bytes) -> bytes:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line)
        process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            answered = selector.select(ANSWER_SECONDS)
        answer: bytes = process.stdout.readline() if answered else b""
        if not answer:
            raise KafkaToolError(f"the JVM of the tools gave no answer:\n{self.close()}")
        return answer

    def close(self) -> str:
        """What the JVM itself complained about."""
        if self._process is None:
            return ""
        self._process.kill()
        _, errors = self._process.communicate()
        self._process = None
        return errors.decode(errors="replace")[-4000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Both(NamedTuple):
    """The two brokers, and the tools that are run against them."""

    tools: JavaTools
    kafka: ApacheKafka
    ours: BrokerProcess

    def run(
        self, tool: str, *arguments: str, code: int = 0, send: str = "", scrub: dict[str, str] | None = None
    ) -> str:
        """What the tool prints, the same against both. ADDRESS in an argument is where the broker is."""
        addresses = (self.ours.bootstrap, self.kafka.address)
        ours, theirs = (self.scrubbed(self.end(tool, *arguments, address=each, send=send), scrub) for each in addresses)
        assert ours == theirs, f"{tool} says of Headrace:\n{ours[1]}\nand of Apache Kafka:\n{theirs[1]}"
        assert ours[0] == code, f"{tool} ended with {ours[0]}:\n{ours[1]}"
        return ours[1]

    def end(self, tool: str, *arguments: str, address: str, send: str = "") -> ToolRun:
        return self.tools.end(tool, *(each.replace("ADDRESS", address) for each in arguments), send=send)

    def scrubbed(self, run: ToolRun, scrub: dict[str, str] | None) -> tuple[int, str]:
        """Exit code and output, without what may differ."""
        text = run.output.replace(str(self.ours.data), "DATA").replace(str(self.kafka.data), "DATA")
        for pattern, instead in (*_SCRUBBED, *(scrub or {}).items()):
            text = re.sub(pattern, instead, text)
        return run.code, text

    def settle(self, tool: str, *arguments: str, until: str) -> str:
        """As `run`, once Apache Kafka's broker has heard of a change: when `until` stands in what the tool prints."""
        wait_until(
            lambda: until in self.end(tool, *arguments, address=self.kafka.address).output, f"{tool} says {until}"
        )
        return self.run(tool, *arguments)
