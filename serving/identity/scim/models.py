"""The resources that this service keeps, and how it reads requests of identity providers.

Only attributes that decide who someone is are kept. All others (telephone numbers, addresses, departments) are accepted and
dropped, so that a provider's usual mapping of attributes works unchanged and no more personal data is stored than is used.
"""

from typing import Annotated, Any, Union

from pydantic import Field
from scim2_models import (
    URN,
    AuthenticationScheme,
    Bulk,
    CaseExact,
    ChangePassword,
    ComplexAttribute,
    ETag,
    Filter,
    Mutability,
    Patch,
    Reference,
    Required,
    Resource,
    ScimPolicy,
    ScimProvider,
    ServiceProviderConfig,
    Sort,
    Uniqueness,
)

MAX_RESULTS = 200
"""Entries of one page of a list."""


class Name(ComplexAttribute):
    formatted: str | None = None
    """The whole name."""
    family_name: str | None = None
    """The family name."""
    given_name: str | None = None
    """The given name."""


class Email(ComplexAttribute):
    value: str | None = None
    """The address."""
    type: str | None = None
    """The kind of address, such as `work`."""
    primary: bool | None = None
    """True for the address that the person signs in with."""


class User(Resource[Any]):
    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:User")

    user_name: Annotated[str | None, Uniqueness.server, Required.true] = None
    """The name of the account, unique in the directory; usually an email address."""
    name: Name | None = None
    """The name of the person."""
    display_name: str | None = None
    """The name as it is shown."""
    active: bool | None = None
    """False for an account that is deactivated."""
    emails: list[Email] | None = None
    """Email addresses. The primary one identifies the person."""


class Member(ComplexAttribute):
    value: Annotated[str | None, Mutability.immutable, CaseExact.true] = None
    """The `id` of a user or group."""
    ref: Annotated[Reference[Union["User", "Group"]] | None, Mutability.immutable] = Field(
        None, serialization_alias="$ref", validation_alias="$ref"
    )
    """The address of the member."""
    type: Annotated[str | None, Mutability.immutable] = Field(None, examples=["User", "Group"])
    """`User` or `Group`."""


class Group(Resource[Any]):
    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:Group")

    display_name: Annotated[str | None, Required.true] = None
    """The name of the group."""
    members: list[Member] | None = None
    """Direct members: users and groups."""


POLICY = ScimPolicy(
    unknown=ScimPolicy.Unknown.ignore,
    remove_value_as_filter=ScimPolicy.RemoveValue.apply,
    unmatched_path_filter=ScimPolicy.UnmatchedPathFilter.create,
)
"""What is tolerated beyond the RFCs: attributes that are not kept, and Entra ID's forms of PATCH."""

CONFIG = ServiceProviderConfig(
    patch=Patch(supported=True),
    bulk=Bulk(supported=False, max_operations=0, max_payload_size=0),
    filter=Filter(supported=True, max_results=MAX_RESULTS),
    change_password=ChangePassword(supported=False),
    sort=Sort(supported=False),
    etag=ETag(supported=False),
    authentication_schemes=[
        AuthenticationScheme(
            type=AuthenticationScheme.Type.oauthbearertoken,
            name="API key",
            description="A key made with `concordance key create EMAIL --scim`, sent as a bearer token.",
            primary=True,
        )
    ],
)

PROVIDER = ScimProvider(models=[User, Group], config=CONFIG, policy=POLICY)
"""What the discovery endpoints publish."""
