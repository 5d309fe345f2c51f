# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the project's shell programs, and stand-ins for other programs."""

import subprocess


def write_program(path, text):
    """Write an executable file, and its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o700)


def run_program(argv, environment, stdin=None, rc=0):
    """Run a program with exactly these variables; assert its exit status; return its CompletedProcess with text."""
    done = subprocess.run(
        argv,
        env=environment,
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == rc, done
    return done


class Answering:
    """A stand-in for command.Runner that returns or raises its answers in turn, and then the last one again.

    called: the argument lists; stdin: the file that the last command read.
    """

    timeout_s = 60

    def __init__(self, *answers):
        self.answers = list(answers)
        self.called = []
        self.environment = {}
        self.stdin = None

    def run(self, argv, stdin=None):
        self.called.append(argv)
        self.stdin = stdin
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def outputs(self, argv, **options):
        return self.run(argv, **options), ""


class ByCommand(Answering):
    """A runner whose answers depend on the command. pick: a function of its arguments that returns the answer."""

    def __init__(self, pick):
        super().__init__()
        self.pick = pick

    def run(self, argv, stdin=None):
        self.answers = [self.pick(argv)]
        return super().run(argv, stdin)
