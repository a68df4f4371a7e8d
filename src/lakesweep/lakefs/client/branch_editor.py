"""Remove paths from branches, in commits of their own.

Nothing is ever staged on a branch that is in use: a commit there would include what others have
staged. So a hidden branch is created on the HEAD, the paths are deleted and committed there, and
that commit is merged. A server refuses to merge into a branch with staged changes, and if a path
changed meanwhile. But it compares contents, not addresses: a path that was deleted meanwhile and
came back with equal bytes would be removed too. So a merge is kept only if the HEAD it met is the
one that was examined; otherwise it is reverted at once. Nor does a server count staged equal
bytes as a change, and a merge drops them: only listings show them.

A run that dies in between leaves a hidden branch, which the next run removes (see
`refs.temporary_branches`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from lakesweep.errors import (
    IncompleteError,
    LakesweepError,
    LeaseHeldError,
    MissingError,
    StoppedError,
    UnavailableError,
)
from lakesweep.lakefs.client.api import RefRecord, Server
from lakesweep.lakefs.refs.commit_graph import TEMPORARY_MARK, TEMPORARY_PREFIX, is_abandoned


class BranchMovedError(IncompleteError):
    """The branch is in use. A later run may succeed."""


@dataclass(frozen=True)
class BranchEdit:
    """An edit of branches: those with this HEAD lose some paths.

    `temporary` is the name of the branch that is created for it, `metadata` that of its commits.
    """

    head: str
    branches: Sequence[str]
    temporary: str
    message: str
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BranchEditResult:
    """The result for a branch: how many paths were removed, or why not. `is_busy` is temporary."""

    branch: str
    paths: int = 0
    reason: str | None = None
    is_busy: bool = False


@dataclass(frozen=True)
class BranchEditor:
    """Removes paths from the branches of a repository.

    `staged_on` gives rows of STAGED, for a branch and its HEAD.
    """

    server: Server
    repository: str
    staged_on: Callable[[str, str], Iterator[pa.RecordBatch]]

    def remove_left_over(self) -> None:
        """Remove what crashed runs left. Call it only if no other run can be active.

        A branch that cannot be removed is left to the next run: it does no harm.
        """
        found = list(self.server.branches(self.repository, hidden=True))
        for branch in found:
            if branch.id.startswith(TEMPORARY_PREFIX) and self._is_nobodys(branch):
                self._remove(branch.id)

    def _is_nobodys(self, branch: RefRecord) -> bool:
        return is_abandoned(branch.id, self.server.commit(self.repository, branch.commit_id))

    def take_off(
        self, edit: BranchEdit, pages: Iterable[Sequence[str]], check: Callable[[], None]
    ) -> Iterator[BranchEditResult]:
        """Remove paths from branches, in pages of at most MOST_PATHS.

        `check` is called between all steps, and may raise to stop; any other failure is returned.
        """
        checked = [
            self._try(branch, partial(self._check_free, branch, edit)) for branch in edit.branches
        ]
        yield from (each for each in checked if each.reason is not None)
        free = [each.branch for each in checked if each.reason is None]
        if not free:
            return
        try:
            yield from self._take_off(edit, free, pages, check)
        finally:
            self._remove(edit.temporary)

    def _take_off(
        self,
        edit: BranchEdit,
        branches: Sequence[str],
        pages: Iterable[Sequence[str]],
        check: Callable[[], None],
    ) -> Iterator[BranchEditResult]:
        try:
            made, paths = self._prepare(edit, pages, check)
        except LakesweepError as error:
            yield from [_refused(branch, error) for branch in branches]
            return
        for branch in branches:
            check()
            yield self._try(branch, partial(self._merge, branch, edit, made), paths)

    def _try(self, branch: str, step: Callable[[], None], paths: int = 0) -> BranchEditResult:
        try:
            step()
        except LakesweepError as error:
            return _refused(branch, error)
        return BranchEditResult(branch, paths)

    def _check_free(self, branch: str, edit: BranchEdit) -> None:
        """BranchMovedError if a merge would be refused, meet another HEAD, or drop an upload."""
        self._check_head(branch, edit.head)
        if self.server.has_changes(self.repository, branch):
            raise BranchMovedError("it has staged changes")
        if any(each.num_rows for each in self.staged_on(branch, edit.head)):
            raise BranchMovedError("something was uploaded again and is not committed")
        self._check_head(branch, edit.head)  # it may have moved while it was listed

    def _check_head(self, branch: str, head: str) -> None:
        if self.server.branch(self.repository, branch).commit_id != head:
            raise BranchMovedError("it has new commits")

    def _prepare(
        self, edit: BranchEdit, pages: Iterable[Sequence[str]], check: Callable[[], None]
    ) -> tuple[str, int]:
        """The commit that lacks the paths, and how many it lacks."""
        self._create(edit)
        count, failures = 0, 0
        reason = "there was nothing to remove"
        for page in pages:
            check()
            errors = self.server.delete_objects(self.repository, edit.temporary, page)
            count, failures = count + len(page), failures + len(errors)
            reason = next((f"{each.path}: {each.message}" for each in errors), reason)
        if count == failures:
            raise IncompleteError(reason)
        check()
        return self._commit(edit), count - failures

    def _create(self, edit: BranchEdit) -> None:
        try:
            self.server.create_hidden_branch(self.repository, edit.temporary, edit.head)
        except UnavailableError:
            # It may have been created anyway; only this run uses the name.
            self.server.branch(self.repository, edit.temporary)

    def _commit(self, edit: BranchEdit) -> str:
        metadata = {**edit.metadata, TEMPORARY_MARK: edit.head}
        try:
            made = self.server.commit_changes(
                self.repository, edit.temporary, edit.message, metadata
            ).id
        except UnavailableError:
            made = self.server.branch(self.repository, edit.temporary).commit_id
            if made == edit.head:
                raise
        if self.server.commit(self.repository, made).parents != (edit.head,):
            raise BranchMovedError(f"{edit.temporary} has a commit of another writer")
        return made

    def _merge(self, branch: str, edit: BranchEdit, made: str) -> None:
        self._check_free(branch, edit)
        metadata = {**edit.metadata, TEMPORARY_MARK: made}
        try:
            merged = self.server.merge(self.repository, made, branch, edit.message, metadata)
        except UnavailableError:
            merged = self.server.branch(self.repository, branch).commit_id
            if made not in self.server.commit(self.repository, merged).parents:
                raise
        if self.server.commit(self.repository, merged).parents[:1] != (edit.head,):
            self._undo(branch, merged)

    def _undo(self, branch: str, merged: str) -> None:
        try:
            self.server.revert_merge(self.repository, branch, merged)
        except LakesweepError as error:
            raise IncompleteError(
                f"it got another commit at the same moment, whose changes merge {merged} may have"
                f" removed, and the merge could not be reverted: {error.message}",
                hint=f"lakectl branch revert lakefs://{self.repository}/{branch} {merged} -m 1",
            ) from error
        raise BranchMovedError(
            "it got another commit at the same moment, so the merge was reverted"
        )

    def _remove(self, temporary: str) -> None:
        with suppress(LakesweepError):  # the next run retries; until then it holds nothing
            self.server.delete_branch(self.repository, temporary)


def _refused(branch: str, error: LakesweepError) -> BranchEditResult:
    """The result for a branch that failed; errors that end the whole run are raised again."""
    if isinstance(error, StoppedError | LeaseHeldError):
        raise error
    is_busy = isinstance(error, BranchMovedError | MissingError)
    return BranchEditResult(branch, reason=error.message, is_busy=is_busy)
