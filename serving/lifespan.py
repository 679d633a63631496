"""The lifetime of the app: it opens and closes the services, and in the leader the assistant in Slack."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from litestar import Litestar

from serving.assistant.worker import SlackAssistant
from serving.services import Services


@asynccontextmanager
async def lifespan(app: Litestar) -> AsyncGenerator[None]:
    """Open the services on startup and close them on shutdown."""
    services: Services = app.state.services
    assistant = SlackAssistant(services.answers)
    await services.open()
    if services.http.shared.worker == 0:
        assistant.start()
    try:
        yield
    finally:
        await assistant.stop()
        await services.close()
