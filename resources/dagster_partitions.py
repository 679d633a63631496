"""Remove roots from Dagster's lists of partitions, through its webserver."""

from collections.abc import Sequence

import httpx

from resources.core.domain import SourceName
from resources.core.errors import NotRunningError
from resources.settings import Settings
from resources.syncs.launch import LOCATION, REPOSITORY, graphql

_DELETE = """
mutation Delete($selector: RepositorySelector!, $source: String!, $keys: [String!]!) {
  deleteDynamicPartitions(repositorySelector: $selector, partitionsDefName: $source, partitionKeys: $keys) {
    __typename
    ... on PythonError { message }
  }
}
"""


def delete_partitions(settings: Settings, source: SourceName, keys: Sequence[str]) -> None:
    """Delete partitions of a source; those that are not there are ignored. Raises `NotRunningError` if Dagster does not do it."""
    selector = {"repositoryLocationName": LOCATION, "repositoryName": REPOSITORY}
    try:
        response = graphql(settings, _DELETE, selector=selector, source=source.value, keys=list(keys))
        result = response.raise_for_status().json()["data"]["deleteDynamicPartitions"]
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        raise NotRunningError(f"Dagster does not answer at {settings.dagster_address} ({error}).") from error
    if result["__typename"] != "DeleteDynamicPartitionsSuccess":
        raise NotRunningError(f"Dagster did not delete the partitions: {result.get('message', result['__typename'])}")
