"""Where documents come from. `open_source` binds a source's name to its connector."""

from __future__ import annotations

from resources.domain import SourceName
from resources.errors import ConfigurationError
from resources.ports import Source
from resources.settings import Settings

CONNECTORS = (SourceName.FILES, SourceName.UPLOAD)
"""Sources that this version can sync."""


def open_source(settings: Settings, name: SourceName) -> Source:
    """Return the connector of a source. Raises `ConfigurationError` for one that this version has no connector for."""
    if name is SourceName.FILES:
        from resources.sources.files import Files

        return Files(settings)
    if name is SourceName.UPLOAD:
        from resources.blobs import Blobs
        from resources.sources.uploads import Uploads

        return Uploads(settings, Blobs(settings.lake_address))
    raise ConfigurationError(f"This version has no connector for {name.value} yet; it has files and uploads.")
