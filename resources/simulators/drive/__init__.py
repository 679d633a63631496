"""A Google Drive v3 server on the loopback that behaves like the real one, for tests and for trying the connector.

`Drive` is the model that people change; `DriveApp` serves it (`resources.simulators.serve`).
"""

from resources.simulators.drive.app import DriveApp
from resources.simulators.drive.model import Drive
from resources.simulators.drive.tree import DOCUMENT, FOLDER, PRESENTATION, SHORTCUT, SPREADSHEET, File

__all__ = ["DOCUMENT", "FOLDER", "PRESENTATION", "SHORTCUT", "SPREADSHEET", "Drive", "DriveApp", "File"]
