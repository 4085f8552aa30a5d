"""The repository and its runner, as the settings have them."""

from __future__ import annotations

from service.config import Settings
from service.tools.sandbox.confinement import Confinement
from service.tools.sandbox.levels import sandbox_for
from service.tools.scripts.domain_proxy import DomainProxy
from service.tools.skills.skill_repository import SkillRepository
from service.tools.skills.skill_runner import RunOptions, SkillRunner
from service.tools.skills.version_store import VersionStore

VERSIONS = "skill-versions"
"""The folder of versions, in the data folder."""


def repository_of(settings: Settings) -> SkillRepository:
    """The skills and scripts that there are under these settings. Nothing is read yet."""
    return SkillRepository(
        scripts=settings.scripts_dir,
        skills=settings.skills_dir,
        versions=VersionStore(settings.data_dir / VERSIONS),
        projects=settings.tools.files_read if settings.tools.skills else (),
    )


def runner_of(settings: Settings, repository: SkillRepository) -> SkillRunner:
    """What runs scripts under these settings. The sandbox is found out by a trial; blocks.

    Raises:
        ConfigurationError: the sandbox that they name does not work on this machine.
    """
    granted = settings.tools.script_network
    return SkillRunner(
        repository,
        RunOptions(
            runs=settings.data_dir / "script-runs",
            sandbox=sandbox_for(settings.tools.sandbox),
            confinement=Confinement(
                readable=settings.tools.script_read,
                writable=settings.tools.script_write,
                network=granted is True,
                hidden=(settings.data_dir.absolute(),),
            ),
            proxy=DomainProxy(granted) if isinstance(granted, tuple) and granted else None,
        ),
    )
