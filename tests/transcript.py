"""Console sessions in Markdown, taken at their word.

In a fenced block of language `console`, a line that begins with `$ ` is a command. The lines behind
it are what it prints, on both streams, in order; `…` stands for anything, on a line of its own for
any number of lines. A command that ends with another code than 0 says so: `# exit code 3`. Lines of
progress, which only slow commands write, are left out of the comparison.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from unittest.mock import patch

from lakesweep.cli.main import run

_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PROGRESS = re.compile(
    r"^\w+ [\d,]+(?: of [\d,]+ \(\d+ %\))? \w+(?: \w+)?, (?:[^,\n]+, )?[\d,]+/s\n"
    r"|^(?:\w+ nothing yet|starting Spark), [\d,]+ s\n",
    re.MULTILINE,
)
_QUOTED = re.compile(r"'[^']*'")
#: In which a shell has nothing to do but to part the words.
_PLAIN = re.compile(r"lakesweep [^$`|&;<>(){}~*?\n\"\\]*")
_EXIT_CODE = re.compile(r"#\s*exit code (\d+)")


@dataclass(frozen=True)
class Step:
    """One command and what a document says of it."""

    command: str
    expected: str
    exit_code: int

    def matches(self, printed: str) -> bool:
        return _pattern(self.expected).fullmatch(_PROGRESS.sub("", printed).rstrip()) is not None

    def run(self, folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run it as a shell would; a plain call of ours in this process, which starts no other."""
        if _PLAIN.fullmatch(_QUOTED.sub("", self.command)):
            return _call(shlex.split(self.command, comments=True)[1:], folder, environment)
        return subprocess.run(
            ["bash", "-c", self.command],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )


def _call(
    words: list[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    with (
        patch.dict(os.environ, environment, clear=True),
        chdir(folder),
        TextIOWrapper(BytesIO(), "utf-8", write_through=True) as printed,
        redirect_stdout(printed),
        redirect_stderr(printed),
        Path(os.devnull).open() as nothing,
        patch.object(sys, "stdin", nothing),
    ):
        code = run(words)
        printed.seek(0)
        return subprocess.CompletedProcess(words, code, printed.read())


def steps(document: str) -> Iterator[Step]:
    """The commands of a document, in order."""
    for block in _BLOCK.findall(document):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            while command.endswith("\\"):
                more, _, expected = expected.partition("\n")
                command = f"{command}\n{more}"
            code = _EXIT_CODE.search(command)
            yield Step(command, expected.rstrip(), int(code[1]) if code else 0)


def _pattern(expected: str) -> re.Pattern[str]:
    lines = [
        r"(?:.*\n)*?.*" if line.strip() == "…" else _line(line) for line in expected.split("\n")
    ]
    return re.compile("\n".join(lines))


def _line(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.rstrip().split("…")) + r"[ \t]*"
