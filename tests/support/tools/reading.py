"""The `read_file` tool over some folders, without any files that were sent."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from service.domain.run_loops import RunLoop
from service.memory.sent_files import SentFiles
from service.tools.builtins.read_file import ReadFile
from service.tools.documents.document_reader import DocumentReader
from service.tools.files.granted_folders import GrantedFolders
from service.tools.sandbox.levels import sandbox_for


async def no_run_loop(run_loop_id: str) -> RunLoop | None:
    return None


def reading(granted: GrantedFolders, documents: DocumentReader | None = None) -> ReadFile:
    none = SentFiles(Path("/nonexistent/sent-files"))
    return ReadFile(
        granted, documents or DocumentReader(partial(sandbox_for, "auto")), none, no_run_loop
    )
