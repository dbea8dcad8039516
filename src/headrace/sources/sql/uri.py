"""URIs of databases, and what of them may be shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from headrace.remote.redact import hide_secrets, show_path


@dataclass(frozen=True)
class Uri:
    """Where a database is, with its password, which is never shown."""

    text: str = field(repr=False)

    @cached_property
    def parts(self) -> SplitResult:
        """Host, port, path and so on."""
        try:
            parts = urlsplit(self.text)
            parts.port  # noqa: B018 - it is converted when it is asked for
        except ValueError:  # it quotes the URI
            raise ValueError(
                f"{self} is no URI: percent-encode @, /, ?, # and : in user and password (urllib.parse.quote)"
            ) from None
        return parts

    @property
    def scheme(self) -> str:
        """The kind of database: what comes before a `+` or a colon."""
        return self.text.partition(":")[0].partition("+")[0].lower()

    @property
    def path(self) -> str:
        """The file of a database that is one: `sqlite:///name` is relative, `sqlite:////name` is not."""
        return unquote(self.text.partition("://")[2].partition("?")[0]).removeprefix("/")

    @property
    def user(self) -> str | None:
        """Return the user name."""
        return None if self.parts.username is None else unquote(self.parts.username)

    @property
    def password(self) -> str | None:
        """What must not be shown."""
        return None if self.parts.password is None else unquote(self.parts.password)

    @property
    def options(self) -> dict[str, str]:
        """Return the query parameters."""
        return dict(parse_qsl(self.parts.query))

    def __str__(self) -> str:
        if "://" in self.text:
            return show_path(self.text)
        return show_path(f"sql://{self.text}").partition("://")[2]  # a user may have forgotten the scheme

    def hide(self, text: str) -> str:
        """Return a message without this URI's secrets."""
        return " ".join(hide_secrets(text, urls=[self.text]).split())
