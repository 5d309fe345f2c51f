# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The signed form by which glideins upload their daemons' logs to an S3 bucket: `glidein_log_s3`.

It is a POST policy of S3, which botocore signs on the controller. With it, objects of limited size can be written below
one prefix until the policy expires. The key that signs it never leaves the controller. files/glidein/lib/logs.sh reads
the form. A presigned URL would be valid for one object only, and all glideins of an array job have the same script.
"""

import re
from typing import Any, Dict, List, Optional

from ansible_collections.glidein.ops.plugins.module_utils.common.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import ANYTHING, Spec, text

# S3 refuses a signature of version 4 that is older.
LONGEST_S = 7 * 86400
# More than the compressed ends of 30 logs of 128 KiB.
LARGEST_BYTES = 5 << 20
_FILENAME = "${filename}"  # S3's own variable: botocore then signs a prefix instead of a whole key
_SECRET = ("access_key", "secret_key")
_KEY = re.compile(r"^[!-~]+\Z")

_OPTIONS = Spec(
    {
        "bucket": {
            "type": text(re.compile(r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z"), "the name of a bucket"),
            "required": True,
        },
        "endpoint": {
            "type": text(
                re.compile(r"^https?://[A-Za-z0-9._-]+(:[0-9]+)?/?\Z"), "an address such as https://s3.example.org:9000"
            )
        },
        "region": {"type": text(re.compile(r"^[a-z0-9-]+\Z"), "a region such as us-east-1"), "default": "us-east-1"},
        "prefix": {
            "type": text(re.compile(r"^[A-Za-z0-9][A-Za-z0-9._/-]*\Z"), "letters, digits and . _ / -"),
            "default": "glidein-logs",
        },
        # Checked in checked_options, because an error must not quote them.
        "access_key": {"type": ANYTHING},
        "secret_key": {"type": ANYTHING},
    }
)


def checked_options(raw: Any) -> Dict[str, Optional[str]]:
    """Return the options of `glidein_log_s3` with their defaults. Raises InputError, which quotes no secret."""
    if not isinstance(raw, dict):
        raise InputError(
            "glidein_log_s3: invalid (not shown: it may have a secret); expected a mapping with the keys bucket, "
            "endpoint, region, prefix, ..."
        )
    problems: List[str] = []
    options = _OPTIONS.check(problems, "glidein_log_s3", raw)
    for key in _SECRET:
        value = raw.get(key)
        options[key] = str(value) if value else None
        if value and not (isinstance(value, str) and _KEY.match(value)):
            problems.append(f"glidein_log_s3.{key}: invalid; expected text without blanks (not shown: it is secret)")
    if (options["access_key"] is None) != (options["secret_key"] is None):
        problems.append("glidein_log_s3: access_key and secret_key are needed together, or neither of them")
    if problems:
        raise InputError(problems)
    return options


def lifetime_s(entries: Any, wait_s: int) -> int:
    """Return the seconds for which a form must be valid. Raises InputError if S3 would not accept that.

    entries: glidein_entries; wait_s: glidein_queue_wait in seconds.
    """
    site = normalise_site("glidein", "site", entries)
    walltime_s = max(entry["walltime_s"] for entry in site["entries"].values())
    needed_s = wait_s + walltime_s
    if needed_s > LONGEST_S:
        raise InputError(
            f"glidein_log_s3: a glidein may need the form for {needed_s} s, glidein_queue_wait ({wait_s} s) and the "
            f"longest walltime of the entries ({walltime_s} s); S3 accepts a signature for at most {LONGEST_S} s "
            "(7 days). Reduce one of the two, or do not set glidein_log_s3."
        )
    return needed_s


def signed_form(options: Dict[str, Any], site: str, seconds: int) -> str:
    """Return the text of a form that is valid for so many seconds. Raises InputError.

    options: result of checked_options; site: name of the site, which is part of the prefix.
    """
    post = _post_policy(options, f"{options['prefix'].rstrip('/')}/{site}/", seconds)
    lines = [f"url {post['url']}"]
    lines += [f"{name} {value.replace(_FILENAME, '')}" for name, value in post["fields"].items()]
    return "\n".join(lines) + "\n"


def _post_policy(options: Dict[str, Any], prefix: str, seconds: int) -> Dict[str, Any]:
    try:
        # Only this option needs it.
        import botocore.config
        import botocore.exceptions
        import botocore.session
    except ImportError as error:
        raise InputError(
            "glidein_log_s3 needs the Python library botocore on the controller, in the environment of "
            f"ansible-playbook: {error}. Install it there: pip install botocore"
        ) from error
    try:
        session = botocore.session.Session()
        if options["secret_key"] is None and session.get_credentials() is None:
            raise botocore.exceptions.NoCredentialsError
        client = session.create_client(
            "s3",
            region_name=options["region"],
            endpoint_url=options["endpoint"],
            aws_access_key_id=options["access_key"],
            aws_secret_access_key=options["secret_key"],
            config=botocore.config.Config(
                signature_version="s3v4", s3={"addressing_style": "path" if options["endpoint"] else "auto"}
            ),
        )
        post = client.generate_presigned_post(
            options["bucket"],
            prefix + _FILENAME,
            Conditions=[["content-length-range", 1, LARGEST_BYTES]],
            ExpiresIn=seconds,
        )
    except (botocore.exceptions.BotoCoreError, ValueError) as error:
        raise InputError(
            f"glidein_log_s3: botocore cannot sign the form: {error}. Set access_key and secret_key, or give the "
            "controller credentials of AWS in another way that botocore reads."
        ) from error
    if "x-amz-security-token" in post["fields"]:
        raise InputError(
            "glidein_log_s3: the controller's credentials of AWS are temporary (an instance's role, SSO or "
            "AWS_SESSION_TOKEN); S3 would refuse the form when they expire, while glideins need it for "
            f"{seconds} s. Set access_key and secret_key to those of a user that may write below the prefix."
        )
    return post
