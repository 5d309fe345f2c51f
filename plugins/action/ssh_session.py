# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin of ssh_session. It runs on the controller, where the terminal and the sessions' sockets are."""

import contextlib
import fcntl
import os
import shlex
import time
from typing import Any, Dict, Iterator, List, Optional

from ansible.errors import AnsiblePromptInterrupt, AnsiblePromptNoninteractive
from ansible.module_utils.basic import missing_required_lib
from ansible.utils.display import Display
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError, InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.token_expiry import utc
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid
from ansible_collections.glidein.ops.plugins.module_utils.controller.ssh_session import (
    codes,
    driver,
    master,
    record,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.ssh_session.prompts import (
    ASK,
    TOTP,
    Conversation,
    LoginError,
    Prompt,
    Rule,
    without_secrets,
)
from ansible_collections.glidein.ops.plugins.plugin_utils.controller_action import ControllerActionModule

display = Display()

# The time limit of a login, without the time that answers take, and of each answer of a person.
LOGIN_TIMEOUT_S = 120


class ActionModule(ControllerActionModule):
    """See the module of the same name."""

    ARGUMENT_SPEC = {
        "state": {"type": "str", "choices": ["present", "absent", "checked"], "default": "checked"},
        "arguments": {"type": "str", "default": ""},
        "prompts": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {
                "match": {"type": "str", "required": True},
                "answer": {"type": "str", "choices": ["ask", "secret", "totp"]},
                "secret": {"type": "str", "no_log": True},
            },
        },
        "site": {"type": "str"},
        "on_loss": {
            "type": "dict",
            "options": {"command": {"type": "list", "elements": "str"}, "url": {"type": "str", "no_log": True}},
        },
    }
    _requires_connection = False

    def _run(self, options: Dict[str, Any], task_vars: Dict[str, Any]) -> Dict[str, Any]:
        self.options = options
        self.host = task_vars.get("inventory_hostname") or self._task.delegate_to
        self.login = self._login()
        directory = os.path.dirname(self.login.control_path)
        if os.path.lexists(directory):
            # A user who could make a socket there could impersonate the site.
            master.private_directory(directory)
        return {"present": self._present, "absent": self._absent, "checked": self._checked}[options["state"]]()

    def _failure(self, error: GlideinError) -> Dict[str, Any]:
        return without_secrets(super()._failure(error), [option.get("secret") for option in self.options["prompts"]])

    # -- states ---------------------------------------------------------------------------------------------

    def _present(self) -> Dict[str, Any]:
        prompts = enumerate(self.options["prompts"])
        rules = [Rule.from_option(option, f"prompts[{number}]") for number, option in prompts]
        seeds = [rule.secret for rule in rules if rule.answer == TOTP and rule.secret]
        if seeds and codes.pyotp is None:
            raise InputError(missing_required_lib("pyotp"))
        for seed in seeds:
            codes.generator(seed)
        changed = not self._is_usable()
        if changed and self._task.check_mode:
            return dict(self._status(False, self._updated_record(False)), changed=True)
        if changed:
            master.private_directory(os.path.dirname(self.login.control_path))
            with self._alone():
                # The process that held the lock before may have opened the session.
                changed = not self._is_usable()
                if changed:
                    self._open(rules)
        return dict(self._status(True, record.read(self.login.control_path)), changed=changed)

    def _is_usable(self) -> bool:
        return master.is_live(self.login) and master.carries(self.login)

    def _open(self, rules: List[Rule]) -> None:
        path = self.login.control_path
        known = record.read(path)
        if known["refused"]:
            self._person_agrees(known["refused"])
        master.close(self.login)
        conversation = Conversation(rules)
        argv = master.open_argv(self.login)
        try:
            driver.log_in(argv, conversation, self._answer, self._notice, os.path.dirname(path), LOGIN_TIMEOUT_S)
        except GlideinError as error:
            # The site may count this as a failed login, whatever ssh printed, and a schedule would repeat it.
            if conversation.gave_stored:
                now = int(time.time())
                record.write(path, record.lost(known, now, refused=now))
            if not isinstance(error, LoginError):
                raise
            raise LoginError(f"No session to {self.login}: {error}", error.refused) from error
        if not master.is_live(self.login):
            raise LoginError(
                f"No session to {self.login}: logged in, but no master answers at {path}. Is ControlMaster or "
                "ControlPersist set in glidein_ssh_session_args?"
            )
        record.write(path, record.opened(int(time.time())))

    def _absent(self) -> Dict[str, Any]:
        live = master.is_live(self.login)
        if live and not self._task.check_mode:
            with self._alone():
                master.close(self.login)
                path = self.login.control_path
                # On purpose: this needs no notification.
                record.write(path, record.lost(record.read(path), int(time.time()), told=True))
        return dict(self._status(False, self._updated_record(False)), changed=live)

    def _checked(self) -> Dict[str, Any]:
        live = master.is_live(self.login)
        known = self._updated_record(live)
        status = self._status(live, known)
        if self._task.check_mode:
            return status
        now = int(time.time())
        notify = not live and self.options["on_loss"] and record.is_notification_due(known, now)
        if notify:
            known["tried"] = now
        master.private_directory(os.path.dirname(self.login.control_path))
        # Written before the hook runs: a login may update the record while the hook runs.
        record.write(self.login.control_path, known)
        if notify:
            self._notify(known["lost"], status["msg"])
        return status

    def _notify(self, lost: Optional[int], message: str) -> None:
        path, site = self.login.control_path, self.options["site"] or self.host
        notice = {"text": f"{site}: {message}", "site": site, "host": self.host, "login_needed_since": lost}
        errors = record.notify(self.options["on_loss"], notice)
        if errors:
            display.warning(f"{self.host}: {errors}")
        else:
            record.write(path, record.notified(record.read(path), lost))

    def _updated_record(self, live: bool) -> record.Record:
        return record.checked(record.read(self.login.control_path), live, int(time.time()))

    def _status(self, live: bool, known: record.Record) -> Dict[str, Any]:
        """Return the result of the task: the state of the session."""
        since = known["opened"] if live else known["lost"]
        if live:
            message = f"session to {self.login} since {utc(since)}" if since else f"session to {self.login}"
        else:
            seen = f", last seen {utc(known['seen'])}" if known["seen"] else ""
            message = (
                f"login needed since {utc(since or time.time())}: no SSH session to {self.login}{seen}; run: "
                f"ansible-playbook glidein.ops.login -l {self.host}"
            )
        control_path = self.login.control_path
        return {"changed": False, "live": live, "since": since, "msg": message, "control_path": control_path}

    # -- connection ----------------------------------------------------------------------------------------

    def _login(self) -> master.Login:
        """Return the Login of this host, as Ansible's own connection plugin would reach it."""
        connection = self._connection
        if not connection.has_option("ssh_args"):
            raise InputError(
                f"the connection plugin {connection.transport} has no SSH sessions; expected ssh, and a task "
                "that is not delegated"
            )
        common = shlex.split(connection.get_option("ssh_common_args") or "")
        arguments = shlex.split(self.options["arguments"] or "") + common
        arguments += shlex.split(connection.get_option("ssh_extra_args") or "")
        if any(part.startswith("-J") for part in common):
            raise InputError(
                "ansible_ssh_common_args: -J is invalid for a site with a session, because only the login connects to "
                "the site; set -J in glidein_ssh_session_args"
            )
        key = connection.get_option("private_key_file")
        host = connection.get_option("host") or self.host
        if not host or host.startswith("-"):
            raise InputError(invalid("ansible_host", host, "a name or an address"))
        return master.Login(
            host=host,
            control_path=master.control_path_of(connection.get_option("ssh_args")),
            user=connection.get_option("remote_user"),
            port=connection.get_option("port"),
            arguments=arguments + (["-i", os.path.expanduser(key)] if key else []),
            executable=connection.get_option("ssh_executable"),
        )

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the session, so that no other process opens or closes it meanwhile."""
        with open(self.login.control_path + ".lock", "w") as handle:
            os.chmod(handle.name, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LoginError(f"another process is logging in to {self.login}; try again later") from None
            yield

    # -- answers ----------------------------------------------------------------------------------------------

    def _answer(self, prompt: Prompt, rule: Rule, before: str) -> str:
        if rule.answer == TOTP:
            return codes.code(rule.secret, os.path.dirname(self.login.control_path))
        if rule.answer != ASK:
            return rule.secret
        text = "\n".join(text for text in (before, str(prompt)) if text)
        no_terminal = f"{prompt}: no stored answer, and no terminal where a person could answer"
        return self._ask(text, rule.hidden, no_terminal)

    def _ask(self, text: str, hidden: bool, no_terminal: str) -> str:
        """Return the answer that the person at the terminal types. Raises LoginError.

        no_terminal: the error if there is no terminal.
        """
        seconds = LOGIN_TIMEOUT_S
        started = time.monotonic()
        hint = " (what you type is not shown)" if hidden else ""
        try:
            typed = display.prompt_until(f"[{self.host}]{hint}\n{text}", private=hidden, seconds=seconds)
        except AnsiblePromptNoninteractive:
            raise LoginError(no_terminal) from None
        except AnsiblePromptInterrupt:
            raise LoginError("stopped by the person at the terminal") from None
        if time.monotonic() - started >= seconds:
            raise LoginError(f"no answer within {seconds} s")
        return typed.decode("utf-8", "surrogateescape") if isinstance(typed, bytes) else str(typed)

    def _person_agrees(self, refused: float) -> None:
        """Ask the person at the terminal to confirm that stored answers which failed are sent again.

        A schedule must not send them again: repeated failures can lock the account.
        """
        question = (
            f"The stored answers for {self.login} did not lead to a session at {utc(refused)}. Correct "
            "them first: the site counts each failed login. Press Enter to try again, Ctrl-C to stop."
        )
        no_terminal = (
            f"No session to {self.login}: the stored answers did not lead to one at {utc(refused)}, and a schedule "
            "does not send them again; correct them, and run glidein.ops.login at a terminal"
        )
        self._ask(question, hidden=False, no_terminal=no_terminal)

    def _notice(self, text: str) -> None:
        display.display(f"[{self.host}] {text}")
