"""A Python for Spark's processes that has loaded beforehand what each of them would load for itself.

Spark starts one for each query, which plans its micro-batches, one for what keeps state, and one for each kind of
worker, and PySpark and Arrow are half a second of CPU time in each. The executable that `forked_python` makes only
passes on what it was called with, its environment and its files. A process that has loaded everything forks, and the
copy goes on as the one that was wanted. When Spark ends what it has started, the copy is ended.

Spark's own way loads nothing before it forks, since a process with threads must not be forked, and some of these
modules start one. Told as below they do not, and that is checked.
"""

import gc
import marshal
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Final

_NO_THREADS: Final = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
_LIKE_SPARK: Final = {
    "PYTHONHASHSEED": "0"
}  # which Spark gives to all its Pythons, and which is read at the start only
_LOADED: Final = (
    "pandas",
    "pytest",  # by those which are sent a function of a test
    "pyarrow.compute",
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "pyspark.sql.streaming.transform_with_state_driver_worker",
    "headrace.spark.batch_source",
    "headrace.spark.datasource",
    "headrace.spark.stream_source",
    "headrace.streams.compiler.running",
)
_Call = tuple[list[str], dict[str, str], str]  # arguments, environment, directory
_MAX_CALL_BYTES: Final = 1 << 20
_FILES: Final = 3  # standard input, output and error

# `-I -S`: nothing but this is loaded, in a hundredth of a second.
_EXECUTABLE: Final = """\
#!{python} -IS
import _socket, marshal, os, sys
to = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
to.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, {max_bytes})
to.connect({path!r})
call = marshal.dumps((sys.argv[1:], dict(os.environ), os.getcwd()))
files = b"".join(fd.to_bytes(4, sys.byteorder) for fd in range({files}))
to.sendmsg([call], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
for fd in range({files}):
    os.close(fd)
os._exit((to.recv(1) or b"\\1")[0])
"""


@contextmanager
def forked_python(directory: Path) -> Iterator[str]:
    """The path of the executable, to be PYSPARK_PYTHON."""
    path, executable = directory / "socket", directory / "python"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(128)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forked_python", str(listener.fileno())],
            env=os.environ | _NO_THREADS | _LIKE_SPARK,
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
        )
    executable.write_text(
        _EXECUTABLE.format(python=sys.executable, path=str(path), max_bytes=_MAX_CALL_BYTES, files=_FILES)
    )
    executable.chmod(0o755)
    with process:  # which ends when its input does: when this process is killed as well
        yield str(executable)


class _Forks:
    """Who has called, and the copy that does the work."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(0, selectors.EVENT_READ)
        self._selector.register(listener, selectors.EVENT_READ)
        self._pids: dict[socket.socket, int] = {}

    def serve(self) -> _Call | None:
        """Until the end; in a copy, what it was called with."""
        while True:
            for key, _ in self._selector.select():
                match key.fileobj, key.data:
                    case 0, _:
                        self._end_all()
                        return None
                    case listener, _ if listener is self._listener:
                        if (call := self._fork()) is not None:
                            return call
                    case int(pidfd), caller:
                        self._has_ended(pidfd, caller)
                    case caller, _ if caller in self._pids:  # it was told to end, and so is its copy
                        self._selector.unregister(caller)
                        os.kill(self._pids[caller], signal.SIGTERM)

    def _fork(self) -> _Call | None:
        caller, _ = self._listener.accept()
        data, files, _, _ = socket.recv_fds(caller, _MAX_CALL_BYTES, _FILES)
        pid = os.fork()
        if pid == 0:
            self._selector.close()
            self._listener.close()
            for other in (caller, *self._pids):
                other.close()
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            call: _Call = marshal.loads(data)
            return call
        for file in files:
            os.close(file)
        self._pids[caller] = pid
        self._selector.register(caller, selectors.EVENT_READ)
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, caller)
        return None

    def _has_ended(self, pidfd: int, caller: socket.socket) -> None:
        self._selector.unregister(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(self._pids.pop(caller), 0)
        with suppress(KeyError):
            self._selector.unregister(caller)
        with suppress(OSError):  # the caller may be gone
            caller.send(bytes([os.waitstatus_to_exitcode(status) & 0xFF]))
        caller.close()

    def _end_all(self) -> None:
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)


def _run(arguments: list[str], environment: dict[str, str], directory: str) -> None:
    """As `python <arguments>` would."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.path[:0] = [directory, *filter(None, environment.get("PYTHONPATH", "").split(":"))]
    match arguments:
        case ["-m", name, *rest]:
            sys.modules.pop(name, None)  # it runs as the main one
            sys.argv[1:] = rest
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        case ["-c", program, *rest]:
            sys.argv[:] = ["-c", *rest]
            exec(program, {"__name__": "__main__"})
        case _:
            raise AssertionError(f"Spark has not called Python so before: {arguments}")


def main(listener: socket.socket) -> None:
    for name in _LOADED:
        import_module(name)
    gc.freeze()  # what is there now is never collected, nor copied for being looked at
    assert len(os.listdir("/proc/self/task")) == 1, "what was loaded has started a thread"
    call = _Forks(listener).serve()
    if call is None:
        return
    code = 1
    try:
        _run(*call)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
