# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the answers to a login's prompts, and of the end of the login."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller.ssh_session.prompts import (
    Conversation,
    LoginError,
    Prompt,
    Rule,
    printable,
    without_secrets,
)
from hypothesis import given
from hypothesis import strategies as st

CODE = Prompt("(pilot@login) Verification code: ")
PASSWORD = Prompt("(pilot@login) Password: ")
HOST_KEY = Prompt(
    "The authenticity of host 'login (192.0.2.1)' can't be established.\nED25519 key fingerprint is SHA256:abc.\n"
    "Are you sure you want to continue connecting (yes/no/[fingerprint])? "
)
SEED = "JBSWY3DPEHPK3PXP"


def rules(*options):
    return [Rule.from_option(option, f"prompts[{number}]") for number, option in enumerate(options)]


STORED = (
    {"match": "verification", "answer": "totp", "secret": SEED},
    {"match": "password", "secret": "right horse"},
)


COLOUR = Prompt("(pilot@login) Favourite colour: ")
METHOD = Prompt("pilot@login's password: ")
PASSWORD_RULE = {"match": "password", "secret": "right horse"}
SAME_PROMPT_TOTP = {"match": "password", "answer": "totp", "secret": SEED}
SAME_PROMPT_ASK = {"match": "password", "answer": "ask"}


@pytest.mark.parametrize(
    "options, talk",
    [
        (STORED, [(CODE, "totp"), (PASSWORD, "secret"), (COLOUR, "ask")]),
        # A stored answer is given once.
        (STORED, [(CODE, "totp"), (CODE, "refused")]),
        # Each rule answers the same prompt once; the second question may also be the person's.
        ([PASSWORD_RULE, SAME_PROMPT_TOTP], [(PASSWORD, "secret"), (PASSWORD, "totp"), (PASSWORD, "refused")]),
        ([PASSWORD_RULE, SAME_PROMPT_ASK], [(PASSWORD, "secret"), (PASSWORD, "ask"), (PASSWORD, "ask")]),
        # A person answers the same prompt again: one text for the password and for the code, or, before OpenSSH 9, for
        # the jump host and the site.
        ([], [(PASSWORD, "ask"), (PASSWORD, "ask"), (METHOD, "ask"), (METHOD, "ask")]),
        # When PAM has refused the password, ssh tries the method "password" with a prompt of its own.
        ([*STORED, {"match": "password", "secret": "other horse"}], [(PASSWORD, "secret"), (METHOD, "refused")]),
        # Bastion and site may have the same prompt.
        (STORED, [(Prompt("(jump@bastion) Password: "), "secret"), (PASSWORD, "secret")]),
        # One secret answers one question of each host.
        (
            [{"match": "pass", "secret": "right horse"}],
            [(PASSWORD, "secret"), (Prompt("(pilot@login) Second passcode: "), "refused")],
        ),
    ],
)
def test_each_prompt_gets_the_answer_of_its_first_unused_rule(options, talk):
    conversation = Conversation(rules(*options))
    for prompt, expected in talk:
        if expected == "refused":
            with pytest.raises(LoginError, match="was asked again") as raised:
                conversation.decide(prompt)
            assert raised.value.refused
            continue
        found = conversation.decide(prompt)
        secret = {"ask": "", "totp": SEED, "secret": "right horse"}[expected]
        assert (found.answer, found.secret, found.hidden) == (expected, secret, True)
        conversation.record(prompt, found)
    assert conversation.has_answered
    assert conversation.gave_stored == any(expected in ("totp", "secret") for _prompt, expected in talk)


@pytest.mark.parametrize("text", [HOST_KEY.text, "Please type 'yes', 'no' or the fingerprint: "])
def test_a_host_key_is_confirmed_by_a_person_regardless_of_rules(text):
    talk = Conversation(rules({"match": ".", "secret": "yes"}))
    for _again in range(2):
        decision = talk.decide(Prompt(text))
        assert (decision.answer, decision.hidden) == ("ask", False)
        talk.record(Prompt(text), decision)
    assert not talk.has_answered
    # A site cannot imitate this prompt.
    assert Conversation([]).decide(Prompt("(pilot@login) " + text)).hidden


@pytest.mark.parametrize("text", ["(pilot@login) New password: ", "Retype it: "])
def test_a_new_password_is_never_made_up(text):
    with pytest.raises(LoginError, match="requires a new password") as raised:
        Conversation(rules({"match": ".", "secret": "right horse"})).decide(Prompt(text))
    assert not raised.value.refused


@pytest.mark.parametrize(
    "option, said",
    [
        (
            {"match": "(", "secret": "right horse"},
            r"prompts\[0\].match: '\(' is invalid; expected a regular expression",
        ),
        ({"match": "a", "answer": "totp"}, r"prompts\[0\].secret: required with"),
        ({"match": "a", "answer": "ask", "secret": "right horse"}, r"prompts\[0\].secret: required with"),
        ({"match": "a", "secret": "right\nhorse"}, r"prompts\[0\].secret: invalid \(not shown\)"),
    ],
)
def test_a_wrong_rule_is_named_and_its_secret_is_not(option, said):
    with pytest.raises(InputError, match=said) as raised:
        rules(option)
    assert "horse" not in str(raised.value)


def test_an_echoed_secret_is_hidden_unless_it_is_too_short():
    details = {"cmd": ["echo", "a right horse 1"], "rc": 1, "stdout": "right horse"}
    hidden = {"cmd": ["echo", "a ******** 1"], "rc": 1, "stdout": "********"}
    assert without_secrets(details, ["right horse", "1", None]) == hidden


@given(st.text())
def test_a_sites_text_contains_no_control_characters(text):
    for shown in (printable(text), str(Prompt(text))):
        assert all(character.isprintable() or character == "\n" for character in shown)
