"""Calls the module of OpenSpoolMan that talks to Spoolman, and prints what it returns."""

import contextlib
import io
import json
import os
import sys
import types

# Its real configuration needs the settings of a printer.
config = types.ModuleType("config")
config.SPOOLMAN_API_URL = os.environ["SPOOLMAN_BASE_URL"] + "/api/v1"
config.SPOOL_SORTING = "filament.material:asc,filament.vendor.name:asc,filament.name:asc"
sys.modules["config"] = config
import spoolman_client as client

spools = client.fetchSpoolList()
for spool in spools:  # what its pages read without asking
    assert spool["filament"]["vendor"]["name"] and spool["filament"]["name"] and spool["remaining_weight"] >= 0, spool
settings = client.fetchSettings()
client.patchExtraTags(1, {"tag": json.dumps("t")}, {"active_tray": json.dumps("tray 1")})
spool = client.getSpoolById(1)
left = []
with contextlib.redirect_stdout(io.StringIO()):
    for grams in (12.5, -2.5):
        client.consumeSpool(1, use_weight=grams)
        left.append(client.getSpoolById(1)["remaining_weight"])
print(json.dumps({
    "spools": [spool["id"] for spool in spools],
    "settings": [settings["currency"], settings["base_url"], [field["key"] for field in settings["extra_fields_spool"]]],
    "tray": json.loads(spool["extra"]["active_tray"]),
    "left": left,
}))
