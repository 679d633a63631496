"""The settings of running services that were started with the sample company."""

from orchestration.demo.sample import roots
from orchestration.demo.simulated import with_running_simulators
from orchestration.supervision import run_state
from resources.settings import Settings


def runs_sample(settings: Settings) -> bool:
    """Return True if a supervisor runs in this HOME with the sample company."""
    started = run_state.read(settings).started
    return started is not None and started.sample and run_state.supervisor(settings) is not None


def with_running_sample(settings: Settings) -> Settings:
    """Return the settings with the sample company's roots and simulators if they run."""
    if not runs_sample(settings):
        return settings
    merged = {root.name: root for root in (*settings.file_roots, *roots())}
    return with_running_simulators(settings.model_copy(update={"file_roots": tuple(merged.values())}))
