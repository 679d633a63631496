"""The base of all responses."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A response. Fields of a newer service that this version does not know are left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")
