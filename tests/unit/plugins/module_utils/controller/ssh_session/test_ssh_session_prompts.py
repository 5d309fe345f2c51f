# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the answers to a login's prompts, and of the end of the login."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller.ssh_session.prompts import (
    Conversation,
    LoginError,
    Prompt,
    Rule,
    last_output,
    printable,
    without_secrets,
)
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
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


def test_stored_answers_go_to_the_prompts_that_match():
    talk = Conversation(rules(*STORED))
    code, password = talk.decide(CODE), talk.decide(PASSWORD)
    assert (code.answer, code.secret) == ("totp", SEED)
    assert (password.answer, password.secret) == ("secret", "right horse")
    assert talk.gave_stored


def test_a_prompt_without_a_rule_goes_to_the_person_without_echo():
    talk = Conversation(rules(*STORED))
    decision = talk.decide(Prompt("(pilot@login) Favourite colour: "))
    assert (decision.answer, decision.secret, decision.hidden) == ("ask", None, True)
    assert not talk.gave_stored
    # After one stored answer an unattended login may be tried, whatever the person would answer.
    talk.decide(PASSWORD)
    assert talk.gave_stored


def test_a_stored_answer_is_given_once():
    talk = Conversation(rules(*STORED))
    talk.decide(CODE)
    with pytest.raises(LoginError, match="was asked again") as raised:
        talk.decide(CODE)
    assert raised.value.refused


@pytest.mark.parametrize("text", ["Password: ", "(pilot@login) Password: ", "pilot@login's password: "])
def test_a_person_answers_the_same_prompt_again(text):
    # One text for the password and for the code, or, before OpenSSH 9, for the jump host and the site.
    talk = Conversation([])
    assert [talk.decide(Prompt(text)).answer for _again in range(2)] == ["ask", "ask"]


def test_each_rule_answers_the_same_prompt_once():
    talk = Conversation(
        rules({"match": "password", "secret": "right horse"}, {"match": "password", "answer": "totp", "secret": SEED})
    )
    assert [talk.decide(PASSWORD).answer for _again in range(2)] == ["secret", "totp"]
    with pytest.raises(LoginError, match="was asked again"):
        talk.decide(PASSWORD)
    # The second question may also be the person's.
    talk = Conversation(rules({"match": "password", "secret": "right horse"}, {"match": "password", "answer": "ask"}))
    assert [talk.decide(PASSWORD).answer for _again in range(3)] == ["secret", "ask", "ask"]


def test_no_stored_answer_is_tried_by_another_method():
    # When PAM has refused the password, ssh tries the method "password" with a prompt of its own.
    talk = Conversation(rules(*STORED, {"match": "password", "secret": "other horse"}))
    talk.decide(PASSWORD)
    with pytest.raises(LoginError) as raised:
        talk.decide(Prompt("pilot@login's password: "))
    assert raised.value.refused


def test_bastion_and_site_may_have_the_same_prompt():
    talk = Conversation(rules(*STORED))
    for target in ("jump@bastion", "pilot@login"):
        assert talk.decide(Prompt(f"({target}) Password: ")).secret == "right horse"  # noqa: S105


def test_one_secret_answers_one_question_of_each_host():
    talk = Conversation(rules({"match": "pass", "secret": "right horse"}))
    talk.decide(PASSWORD)
    with pytest.raises(LoginError) as raised:
        talk.decide(Prompt("(pilot@login) Second passcode: "))
    assert raised.value.refused


@pytest.mark.parametrize("text", [HOST_KEY.text, "Please type 'yes', 'no' or the fingerprint: "])
def test_a_host_key_is_confirmed_by_a_person_regardless_of_rules(text):
    talk = Conversation(rules({"match": ".", "secret": "yes"}))
    for _again in range(2):
        decision = talk.decide(Prompt(text))
        assert (decision.answer, decision.hidden) == ("ask", False)
    assert not talk.has_answered


def test_a_site_cannot_imitate_the_host_key_prompt():
    decision = Conversation([]).decide(Prompt("(pilot@login) " + HOST_KEY.text))
    assert decision.hidden


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
        (
            {"match": "a", "answer": "guess"},
            r"prompts\[0\].answer: 'guess' is invalid; expected ask, secret or totp",
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
    for shown in (printable(text), last_output(text), str(Prompt(text))):
        assert all(character.isprintable() or character == "\n" for character in shown)


def test_last_output_keep_the_end():
    assert last_output("a " * 300 + "Permission denied") == "..." + ("a " * 300 + "Permission denied")[-400:]
