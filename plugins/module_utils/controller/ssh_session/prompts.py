# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The prompts of ssh during a login, and the rules for their answers. Pure functions and values."""

import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Pattern, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError, InputError

ASK, SECRET, TOTP = "ask", "secret", "totp"

# ssh's own question about a host key. Prompts of a server begin with its name in brackets, or end with "'s password: ".
_HOST_KEY = re.compile(
    r"\AThe authenticity of host .*\(yes/no.*\)\? ?\Z|\APlease type 'yes'(?:, 'no' or the fingerprint| or 'no'): ?\Z",
    re.DOTALL,
)
_PASSWORD_METHOD = re.compile(r"'s password: ?\Z")
_SERVERS = re.compile(r"\A\(([^()\s]+)\) ")
_NEW_PASSWORD = re.compile(r"new password|retype|re-enter", re.IGNORECASE)
# A digit that chooses from a menu is not a secret: hiding it would hide parts of every address and time.
_SHORTEST_SECRET = 4


class LoginError(GlideinError):
    """A login that has ended without a session. refused: whether the site refused an answer."""

    def __init__(self, message: str, refused: bool = False) -> None:
        self.refused = refused
        super().__init__(message)


class Prompt(NamedTuple):
    """A question of ssh. text: as ssh asked it; hint: "confirm", "none" (a notice, which has no answer) or ""."""

    text: str
    hint: str = ""

    @property
    def is_notice(self) -> bool:
        return self.hint == "none"

    @property
    def is_host_key(self) -> bool:
        return _HOST_KEY.match(self.text) is not None

    @property
    def wants_new_password(self) -> bool:
        return _NEW_PASSWORD.search(self.text) is not None

    @property
    def is_of_password_method(self) -> bool:
        return _PASSWORD_METHOD.search(self.text) is not None

    @property
    def target(self) -> str:
        """Return the user@host that the prompt comes from; "" if ssh does not name it."""
        found = _SERVERS.match(self.text)
        if found:
            return found.group(1)
        return self.text[: -len("'s password: ")] if self.is_of_password_method else ""

    def __str__(self) -> str:
        return printable(self.text).strip()


class Rule:
    """The rule for prompts that match: a person, a stored secret, or a code of a stored seed answers them.

    answer: ASK, SECRET or TOTP; secret: the secret or seed of the last two; hidden: whether the terminal hides the
    answer of a person.
    """

    def __init__(self, match: Pattern[str], answer: str, secret: str = "", hidden: bool = True) -> None:
        self.match = match
        self.answer = answer
        self.secret = secret
        self.hidden = hidden

    @property
    def is_stored(self) -> bool:
        return self.answer != ASK

    @classmethod
    def from_option(cls, option: Dict[str, Any], place: str) -> "Rule":
        """Return the rule for {"match", "answer", "secret"}. Raises InputError, which never shows the secret."""
        try:
            match = re.compile(option["match"], re.IGNORECASE)
        except re.error as error:
            raise InputError(
                f"{place}.match: {option['match']!r} is invalid; expected a regular expression: {error}"
            ) from error
        secret = option.get("secret") or ""
        answer = option.get("answer") or (SECRET if secret else ASK)
        if (answer == ASK) == bool(secret):
            raise InputError(f"{place}.secret: required with the answers {SECRET} and {TOTP}, and invalid with {ASK}")
        if secret and not secret.isprintable():
            raise InputError(f"{place}.secret: invalid (not shown); expected one line without control characters")
        return cls(match, answer, secret)


_ASK_HIDDEN = Rule(re.compile(""), ASK)
_ASK_SHOWN = Rule(re.compile(""), ASK, hidden=False)


class Conversation:
    """The conversation of one login: how each prompt is answered, and when the login must end.

    A stored answer is given once for each rule and host: if ssh repeats a question, the answer was wrong, or it was
    meant for another question with the same text. Further wrong answers could lock the account. A person decides that
    for themselves.
    """

    def __init__(self, rules: List[Rule]) -> None:
        self.rules = rules
        self.answered: List[Tuple[str, Rule]] = []

    def decide(self, prompt: Prompt) -> Rule:
        """Return the Rule for a prompt that needs an answer. Raises LoginError."""
        if prompt.is_host_key:
            return _ASK_SHOWN
        if prompt.wants_new_password:
            raise LoginError(f"the site requires a new password ({prompt}): set one with ssh, then log in again")
        matching = [rule for rule in self.rules if rule.match.search(prompt.text)]
        given = [rule for target, rule in self.answered if target == prompt.target and rule.is_stored]
        rule = next((rule for rule in matching if rule not in given), None if matching else _ASK_HIDDEN)
        # After PAM's conversation has failed, ssh tries the method "password" with the same password.
        if rule is None or (rule.is_stored and given and prompt.is_of_password_method):
            raise LoginError(f"{prompt} was asked again: the stored answer was not accepted", refused=True)
        return rule

    def record(self, prompt: Prompt, rule: Rule) -> None:
        """Record that the answer of a rule is sent for a prompt."""
        if not prompt.is_host_key:
            self.answered.append((prompt.target, rule))

    @property
    def has_answered(self) -> bool:
        return bool(self.answered)

    @property
    def gave_stored(self) -> bool:
        """Return whether a stored secret was sent, which a schedule could repeat."""
        return any(rule.is_stored for _target, rule in self.answered)


def without_secrets(value: Any, secrets: Iterable[Optional[str]]) -> Any:
    """Return a text, or a list or dict with texts, without the secrets that a site may have returned."""
    if isinstance(value, dict):
        return {key: without_secrets(each, secrets) for key, each in value.items()}
    if isinstance(value, list):
        return [without_secrets(each, secrets) for each in value]
    if isinstance(value, str):
        for secret in secrets:
            if secret and len(secret) >= _SHORTEST_SECRET:
                value = value.replace(secret, "********")
    return value


def printable(text: str) -> str:
    """Return a text of any origin without control characters other than line breaks, so that a terminal may show it."""
    lines = text.replace("\r\n", "\n").replace("\t", " ").split("\n")
    return "\n".join("".join(character if character.isprintable() else "?" for character in line) for line in lines)
