"""The start page."""

from html import escape
from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency

from serving.deps import Services
from serving.pages import page
from serving.routes.sign_in import signed_in_email
from serving.sign_in.pages import signed_in_as

SIGN_IN = '<p><a class="button" href="/sign-in">Sign in</a></p>'
_HOME = """<h1>Concordance</h1>
<p>Search for your company's knowledge. Each person finds only what that person may read.</p>
{account}
<article>
<h2>Search</h2>
<p>In a terminal, on the machine that runs Concordance:</p>
<pre><code>concordance search "parental leave" --as you@company.com</code></pre>
<p>From a program, with a token:</p>
<pre><code>curl {address}/api/rag/search \\
  -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
  -d '{{"query": "parental leave"}}'</code></pre>
<h2>Get a token</h2>
<p>Whoever runs Concordance makes one for a person or a key for a program:</p>
<pre><code>concordance token you@company.com
concordance key create bot@company.com</code></pre>
<h2>Go on</h2>
<ul>
<li><a href="/docs">Try the HTTP interface</a></li>
<li><a href="/docs/openapi.json">OpenAPI document</a> for client generators</li>
<li><code>concordance status</code> shows what is running and what is indexed</li>
</ul>
</article>"""


@get("/", operation_id="home", include_in_schema=False, exclude_from_auth=True)
async def home(request: Request[Any, Any, Any], services: NamedDependency[Services]) -> Response[str]:
    """Say what this is, who is signed in, and where to go on. It shows nothing of the documents."""
    email = await signed_in_email(request, services)
    account = signed_in_as(email) if email is not None else SIGN_IN
    return page("Concordance", _HOME.format(address=escape(services.settings.base_url), account=account))
