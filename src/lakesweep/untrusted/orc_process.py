"""Read an ORC file of others in a process of its own.

The ORC reader of Arrow does not check all that it reads: one flipped bit can make it write where it
must not. In a process of its own that is an error of this file, and not the end of the run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa

from lakesweep.errors import DamagedError, LimitError

_MOST_MEMORY_BYTES = 4 << 30
_MOST_SECONDS = 600
#: Copies columns of an ORC file, stripe by stripe, to standard output as an Arrow stream.
_PROGRAMME = """
import json, re, resource, sys
import pyarrow as pa
from pyarrow import orc
most, wanted = int(sys.argv[2]), json.loads(sys.argv[3])
resource.setrlimit(resource.RLIMIT_AS, (most, most))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
file = orc.ORCFile("/proc/self/fd/" + sys.argv[1])
plain = {name: re.sub("[^a-z0-9]", "", name.lower()) for name in file.schema.names}
names = [name for name in file.schema.names if plain[name] in wanted]
schema = pa.schema([file.schema.field(name) for name in names])
with pa.ipc.new_stream(sys.stdout.buffer, schema) as writer:
    for number in range(file.nstripes):
        writer.write_batch(file.read_stripe(number, names))
"""


def orc_batches(path: str, file: BinaryIO, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Some columns of an ORC file, one batch a stripe; DamagedError if it cannot be read.

    Names are compared by their lower-case letters and digits.
    """
    with _converted(path, file, names) as copy, pa.ipc.open_stream(copy) as stream:
        yield from stream


def _converted(path: str, file: BinaryIO, names: Sequence[str]) -> BinaryIO:
    descriptor = file.fileno()
    arguments = [str(descriptor), str(_MOST_MEMORY_BYTES), json.dumps(list(names))]
    copy = tempfile.TemporaryFile(prefix="lakesweep-orc-")  # noqa: SIM115 (the caller closes it)
    try:
        ended = subprocess.run(  # noqa: S603
            [sys.executable, "-c", _PROGRAMME, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=copy,
            stderr=subprocess.PIPE,
            pass_fds=(descriptor,),
            timeout=_MOST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        copy.close()
        raise LimitError(path, f"took more than {_MOST_SECONDS} seconds to read") from error
    if ended.returncode:
        copy.close()
        raise DamagedError(path, f"is not a readable ORC file: {_last_line(ended.stderr)}")
    copy.seek(0)
    return copy


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:500] if lines else "its reader crashed"
