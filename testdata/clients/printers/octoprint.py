"""Calls the connector of OctoPrint-Spoolman and prints what it returns."""

import json
import logging
import os

from SpoolmanConnector import SpoolmanConnector

url = os.environ["SPOOLMAN_URL"]
logger = logging.getLogger("test")
connector = SpoolmanConnector(url + "/", logger, True)
spools = connector.handleGetSpoolsAvailable()["data"]["spools"]
for spool in spools:  # what the plugin's pages read without asking
    assert spool["filament"]["vendor"]["name"] and spool["filament"]["name"] and spool["filament"]["material"], spool
    assert spool["remaining_weight"] >= 0 and spool["filament"]["diameter"] and spool["filament"]["density"], spool
committed = [connector.handleCommitSpoolUsage(n, mm).get("data") for n, mm in ((1, 1000), (1, 1000.0), (2, 500))]
unknown = connector.handleCommitSpoolUsage("99", 1)["error"]["code"]
wrong = SpoolmanConnector(url.replace("swk_", "swk_x"), logger, True)
print(json.dumps({
    "spools": [spool["id"] for spool in spools],
    "committed": committed,
    "unknown": unknown,
    "wrong_key": wrong.handleGetSpoolsAvailable()["error"]["code"],
}))
