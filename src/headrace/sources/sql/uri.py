"""URIs of databases, and what of them may be show_path."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from headrace.records.redact import hide_secrets, show_path


@dataclass(frozen=True)
class Uri:
    """Where a database is, with the password to it, which nobody is show_path."""

    text: str = field(repr=False)

    @cached_property
    def parts(self) -> SplitResult:
        """Host, port, path and so on."""
        return urlsplit(self.text)

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
        """Who asks."""
        return None if self.parts.username is None else unquote(self.parts.username)

    @property
    def password(self) -> str | None:
        """What must not be show_path."""
        return None if self.parts.password is None else unquote(self.parts.password)

    @property
    def options(self) -> dict[str, str]:
        """What stands behind the question mark."""
        return dict(parse_qsl(self.parts.query))

    def __str__(self) -> str:
        return show_path(self.text)

    def hide(self, text: str) -> str:
        """What somebody says, without this URI's secrets."""
        secrets = {"password": self.password or "", "raw_password": self.parts.password or "", **self.options}
        return hide_secrets(" ".join(text.replace(self.text, str(self)).split()), secrets)
