"""What jobs run: the commands that a person would type, one for each target.

A command is a process of its own: one that dies takes nothing with it, and what it did is what the
command line does. Its exit code says how it ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from lakesweep.errors import LeaseHeldError, UsageError
from lakesweep.runs.job_records import JobRecord, JobStatus
from lakesweep.runs.schedules import JobKind, Schedule

#: A shell's code for a process that was ended by SIGTERM.
TERMINATED = 143
_INTERRUPTED = 130
#: How an unattended sweep begins its reasons to wait for a person.
NEEDS_APPROVAL = "needs approval:"
#: Statuses by exit code; every other one is a failure.
_STATUSES: Mapping[int, JobStatus] = {
    0: JobStatus.DONE,
    3: JobStatus.REFUSED,
    4: JobStatus.INCOMPLETE,
    TERMINATED: JobStatus.CANCELLED,
    _INTERRUPTED: JobStatus.CANCELLED,
}

#: The words of each command; what the job works on comes after them.
_COMMANDS: Mapping[JobKind, tuple[str, ...]] = {
    JobKind.SWEEP: ("sweep",),
    JobKind.CHECK: ("check",),
    JobKind.MAINTAIN: ("store", "maintain", "--yes"),
    JobKind.PAIMON_ORPHANS: ("paimon", "orphans", "--yes"),
    JobKind.PAIMON_EXPIRE: ("paimon", "expire-snapshots", "--yes"),
    JobKind.QUARANTINE_EMPTY: ("quarantine", "empty", "--ended", "--yes"),
    JobKind.LIFECYCLE: ("lifecycle", "sweep"),
    JobKind.ICEBERG_EXPIRE: ("iceberg", "expire-snapshots", "--yes"),
    JobKind.POLICY: ("policy", "run", "--yes"),
    JobKind.PLAN: ("plan",),
    JobKind.APPLY: ("apply", "--yes"),
    JobKind.LIFECYCLE_PLAN: ("lifecycle", "plan"),
    JobKind.LIFECYCLE_APPLY: ("lifecycle", "apply", "--yes"),
    JobKind.QUARANTINE_RESTORE: ("quarantine", "restore"),
    JobKind.QUARANTINE_RELEASE: ("quarantine", "empty", "--yes"),
    JobKind.REALM_PURGE: ("realm", "purge", "--yes"),
    JobKind.REALM_DELETE: ("realm", "delete", "--yes"),
}
#: Jobs over lakes of the configuration, jobs over one address, and jobs over the store.
_OF_LAKES = frozenset({JobKind.SWEEP, JobKind.CHECK, JobKind.POLICY})
_OF_ADDRESSES = frozenset({JobKind.PAIMON_ORPHANS, JobKind.PAIMON_EXPIRE})


def command_of(job: JobRecord, files: Path | None = None) -> list[str]:
    """The words of the command that carries a job out. Its own files are in the folder `files`."""
    options = [f"--{name}={value}" for name, value in job.options.items()]
    if job.job is JobKind.POLICY:
        return [*_COMMANDS[job.job], *options, *job.words, f"--lake={job.target}"]
    if files is not None:
        options += [f"--policy={files / name}" for name in job.files]
    # Behind the dashes no name can be taken for an option.
    targets = ["--", job.target] if job.target else []
    return [*_COMMANDS[job.job], *options, *job.words, *targets]


def status_of(exit_code: int, lines: Sequence[str] = ()) -> JobStatus:
    """How a job ended whose command ended with this code, after these last lines."""
    status = _STATUSES.get(exit_code, JobStatus.FAILED)
    if status is JobStatus.REFUSED and any(line.startswith(NEEDS_APPROVAL) for line in lines):
        return JobStatus.WAITING
    return status


def is_busy(exit_code: int) -> bool:
    """Whether another run works on the same lake, so that the job has to wait for it."""
    return exit_code == LeaseHeldError.exit_code


def targets_of(schedule: Schedule, lakes: Sequence[str]) -> list[str]:
    """What a schedule works on now: lakes that its pattern matches, an address, or the store."""
    if schedule.job in _OF_LAKES:
        pattern = schedule.lake or ""
        return [lake for lake in lakes if fnmatchcase(lake, pattern)]
    return [schedule.target or ""]


def check_schedule(schedule: Schedule, lakes: Sequence[str]) -> None:
    """UsageError unless a schedule names what its job works on."""
    if schedule.job in _OF_LAKES and not targets_of(schedule, lakes):
        what = f"no lake is called {schedule.lake}" if schedule.lake else "it names no lake"
        raise UsageError(
            f"schedule {schedule.name}: {what}",
            hint=f"the lakes are {', '.join(lakes)}; '*' means all" if lakes else "add a lake",
        )
    if schedule.job in _OF_ADDRESSES and not schedule.target:
        raise UsageError(
            f"schedule {schedule.name}: a job {schedule.job} needs a target",
            hint="the address of a table or a warehouse",
        )
    if schedule.job is JobKind.LIFECYCLE and not (schedule.target and "policy" in schedule.options):
        raise UsageError(
            f"schedule {schedule.name}: a job lifecycle needs a repository and a policy file",
            hint="--target REPO --option policy=FILE",
        )
    if schedule.job is JobKind.ICEBERG_EXPIRE and not (
        schedule.target or {"lake", "catalog"} & schedule.options.keys()
    ):
        raise UsageError(
            f"schedule {schedule.name}: a job iceberg-expire needs tables",
            hint="--target catalog.namespace.table, or --option lake=LAKE for all of a lake",
        )
    schedule.check_times()
