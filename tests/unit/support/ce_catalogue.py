# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ads of a CE and of a gateway, with their expressions evaluated."""

ITEM = {
    "Name": "sc1",
    "CPUs": 8,
    "Memory": 16000,
    "MaxWallTime": 2880,
    "AllowedVOs": ["osg", "icecube"],
    "Requirements": None,
    "Transform": {"set_xcount": None, "set_MaxMemory": None},
}
CE = {
    "Name": "ce1.example.org",
    "AuthenticatedIdentity": "ce1.example.org@daemon.example.org",
    "LastHeardFrom": 1000,
    "HTCondorCEVersion": "25.0.1",
    "OSG_Resource": "EXAMPLE-CE1",
    "OSG_ResourceGroup": "EXAMPLE",
    "OSG_BatchSystems": "SLURM",
    "OSG_ResourceCatalog": [ITEM],
    "grid_resource": "condor ce1.example.org ce1.example.org:9619",
}
GATEWAY = dict(
    CE,
    Name="gateway-lab@",
    AuthenticatedIdentity="gateway-lab@cm.example.org",
    OSG_BatchSystems="slurm",
    OSG_Resource="lab",
    OSG_ResourceGroup="lab",
    grid_resource="condor gateway-lab@ cm.example.org:9618",
    is_glidein=True,
    GLIDEIN_Site="lab",
)
