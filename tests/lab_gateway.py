# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway of the lab, for the demo and the benches."""

# Names in the directory inventories.
INVENTORIES = ("lab", "lab-gateway")
GATEWAY = "gateway-slurm@"
# As the administrator of the login node: systemd of the lab runs no services of users without a login.
INSTALL_CRON = (
    "command -v crontab >/dev/null"
    " || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq cron; } >/dev/null 2>&1;"
    " systemctl start cron"
)
