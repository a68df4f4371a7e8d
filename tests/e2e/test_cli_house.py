"""The installed command, in a process of its own, as a shell sees it."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_LAKESWEEP = str(Path(sys.executable).with_name("lakesweep"))
_HEAVY = {
    *("botocore", "msgspec", "numba", "numpy", "google", "pyarrow", "pyiceberg", "sqlalchemy"),
}


def _run(
    *arguments: str, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [_LAKESWEEP, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def _on_a_terminal(command: list[str], typed: bytes, cwd: Path) -> tuple[int, str]:
    """Run a command on a terminal of its own, type, and give exit code and all that was shown."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execv(command[0], command)
    os.write(terminal, typed)
    shown = b"".join(_shown(terminal))
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown.decode()


def _shown(terminal: int) -> Iterator[bytes]:
    while select.select([terminal], [], [], 120)[0]:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the other side is closed
            return
        if not data:
            return
        yield data


def test_the_installed_command_tells_its_version() -> None:
    done = _run("--version")
    assert (done.returncode, done.stdout.split()[0], done.stderr) == (0, "lakesweep", "")


def test_init_then_doctor_as_the_manual_says(tmp_path: Path) -> None:
    assert _run("init", cwd=tmp_path).returncode == 0
    done = _run("doctor", "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert all(check["status"] != "fail" for check in json.loads(done.stdout)["checks"])


def test_the_environment_names_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text("[stor]\n")
    done = _run("doctor", cwd=tmp_path, LAKESWEEP_CONFIG=str(file))
    assert done.returncode == 2
    assert "did you mean store?" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_shown_for_each_shell(shell: str) -> None:
    done = _run("--show-completion", shell)
    assert done.returncode == 0
    assert "lakesweep" in done.stdout


def test_completion_offers_commands() -> None:
    done = _run(_LAKESWEEP_COMPLETE="complete_bash", COMP_WORDS="lakesweep do", COMP_CWORD="1")
    assert done.stdout.split() == ["doctor"]


def test_completion_can_be_installed(tmp_path: Path) -> None:
    done = _run("--install-completion", "bash", HOME=str(tmp_path))
    assert done.returncode == 0
    assert "lakesweep" in (tmp_path / ".bashrc").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["doctor", "--help"],
        ["init", "--help"],
        ["plan", "--help"],
        ["show", "--help"],
        ["check", "--help"],
        ["store", "bench", "--help"],
        ["realm", "purge", "--help"],
    ],
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from lakesweep.cli.main import run\n"
        f"run({arguments!r})\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "lakesweep" in loaded
    assert not loaded & (_HEAVY | {"pyspark"})


def test_doctor_does_not_start_spark() -> None:
    program = (
        "import sys\n"
        "from lakesweep.cli.main import run\n"
        "run(['doctor'])\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert "pyspark" not in done.stderr.split()


def test_a_plan_of_a_lake_loads_nothing_of_lifecycles() -> None:
    program = (
        "import sys, lakesweep.operations.lakes.plan\n"
        "print(*(name for name in sys.modules if name.startswith('lakesweep.lifecycle')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split() == []


def test_a_reader_that_has_seen_enough_ends_it_quietly(tmp_path: Path) -> None:
    (tmp_path / "stream.py").write_text(
        "import pyarrow as pa, sys\n"
        "from lakesweep.cli import main\n"
        "from lakesweep.cli.context import Context\n"
        "from lakesweep.cli.commands import command\n"
        "from lakesweep.storage.file_batches import FILE_SCHEMA\n"
        "row = {'path': 's3://lake/' + 'x' * 100}\n"
        "batch = pa.RecordBatch.from_pylist([row] * 10000, schema=FILE_SCHEMA)\n"
        "@command(main.app, 'stream', examples=[])\n"
        "def stream(context: Context) -> None:\n"
        "    context.output.files(batch for _ in range(10000))\n"
        "sys.exit(main.run(sys.argv[1:]))\n"
    )
    with subprocess.Popen(
        [sys.executable, "stream.py", "stream", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"path":"s3://lake/x')
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(120) == 141


def test_a_full_disk_is_an_error_and_not_silence() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [_LAKESWEEP, "doctor", "--json"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 4
    assert b"No space left" in done.stderr


def _heed_interrupts() -> None:
    """A shell makes the jobs in its background, such as these tests may be, ignore interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interruption_ends_with_130(tmp_path: Path) -> None:
    (tmp_path / "wait.py").write_text(
        "import sys, time\n"
        "from lakesweep.cli import main\n"
        "from lakesweep.cli.context import Context\n"
        "from lakesweep.cli.commands import command\n"
        "@command(main.app, 'wait', examples=[])\n"
        "def wait(context: Context) -> None:\n"
        "    context.output.say('waiting')\n"
        "    sys.stderr.flush()\n"
        "    time.sleep(120)\n"
        "sys.exit(main.run(sys.argv[1:]))\n"
    )
    with subprocess.Popen(
        [sys.executable, "wait.py", "wait"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_heed_interrupts,  # noqa: PLW1509
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        assert "safe to run" in process.stderr.read()
        assert process.wait(120) == 130


def test_a_file_that_is_still_read_ahead_does_not_abort_the_end(tmp_path: Path) -> None:
    """Arrow's thread wakes up when the command is done, and wants Python's lock."""
    (tmp_path / "ahead.py").write_text(
        "import io, threading, time\n"
        "import pyarrow as pa, pyarrow.dataset as ds, pyarrow.parquet as pq\n"
        "from lakesweep.cli import main\n"
        "class Slow(io.BytesIO):\n"
        "    def read(self, size=-1):\n"
        "        if threading.current_thread() is not threading.main_thread():\n"
        "            reading.set()\n"
        "            time.sleep(0.5)\n"
        "        return super().read(size)\n"
        "def read_ahead(words):\n"
        "    global reader\n"
        "    pq.write_table(pa.table({'a': [1]}), file := io.BytesIO())\n"
        "    slow = pa.PythonFile(Slow(file.getvalue()), mode='r')\n"
        "    reader = ds.ParquetFileFormat().make_fragment(slow).scanner().to_reader()\n"
        "    reading.wait()\n"
        "    print('done')\n"
        "    return 4\n"
        "reading = threading.Event()\n"
        "main.run = read_ahead\n"
        "main.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "ahead.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (4, "done\n", "")


@pytest.mark.parametrize(("typed", "code"), [(b"y\n", 0), (b"n\n", 3)])
def test_a_question_on_a_terminal_waits_for_the_answer(
    tmp_path: Path, typed: bytes, code: int
) -> None:
    script = tmp_path / "ask.py"
    script.write_text(
        "import sys\n"
        "from lakesweep.cli import main\n"
        "from lakesweep.cli.context import Context\n"
        "from lakesweep.cli.commands import command\n"
        "from lakesweep.cli.options import Yes\n"
        "@command(main.app, 'ask', examples=[])\n"
        "def ask(context: Context, yes: Yes = False) -> None:\n"
        "    context.confirm('Delete 5 files?', yes=yes)\n"
        "    context.output.say('deleting')\n"
        "sys.exit(main.run(sys.argv[1:]))\n"
    )
    ended, shown = _on_a_terminal([sys.executable, str(script), "ask"], typed, tmp_path)
    assert ended == code
    assert "Delete 5 files? [y/N]" in shown
    assert ("deleting" in shown) == (code == 0)


def test_colour_is_for_terminals_that_want_it(tmp_path: Path) -> None:
    _, shown = _on_a_terminal([_LAKESWEEP, "docter"], b"", tmp_path)
    assert "\x1b[31merror:" in shown
    assert "\x1b[" not in _run("docter").stderr
