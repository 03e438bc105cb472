"""Calls the API class of the Home Assistant integration Spoolman and prints what it returns."""

import asyncio
import json
import os

import aiohttp
from spoolman_api import SpoolmanAPI


async def main():
    api = SpoolmanAPI(os.environ["SPOOLMAN_URL"] + "/")

    async def status(call):
        try:
            await call
        except aiohttp.ClientResponseError as e:
            return e.status

    spools = await api.get_spools({"allow_archived": False})
    for spool in spools:  # the integration's sensors call methods on these
        assert all(value is not None for value in spool.values()), spool
        assert spool["filament"]["vendor"]["name"].upper(), spool
        assert spool["filament"].get("color_hex", "").upper() is not None, spool
        assert spool.get("extra").items() is not None
    result = {
        "health": (await api.health())["status"],
        "version": [int(part) for part in (await api.info())["version"].split(".")],
        "spools": [spool["id"] for spool in spools],
        "archived": [spool["id"] for spool in await api.get_spools({"allow_archived": True})],
        "filaments": len(await api.get_filaments({})),
        "locations": await api.get_locations(),
        "fields": list(await api.get_extra_fields("spool")),
    }
    patched = await api.patch_spool(
        1, {"location": "Drawer", "remaining_weight": 900, "extra": {"tray": "A1"}, "comment": "x", "archived": False}
    )
    assert patched["extra"] == {"tray": '"A1"'}, patched
    spool = await api.get_spool_by_id(1)
    result["patched"] = [spool["location"], spool["remaining_weight"], spool["extra"]]
    used = await api.use_spool_filament(1, {"use_weight": 50})
    back = await api.use_spool_filament(2, {"use_weight": 50.0})
    result["used"] = [used["remaining_weight"], back["remaining_weight"]]
    result["backup"] = await status(api.backup())
    result["unknown"] = await status(api.get_spool_by_id(99))
    await api.close()
    print(json.dumps(result))


asyncio.run(main())
