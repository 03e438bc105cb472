"""Client of Spoolwright, the filament inventory of 3D-print farms.

::

    import spoolwright

    farm = spoolwright.Client("https://farm.example", api_key="swk_...")
    for spool in farm.spools.iterate(material_type="PLA", in_stock=True):
        print(spool.number, spool.color, spool.remaining_weight_grams)
"""

from . import _api
from ._api import *
from ._api import VERSION as __version__
from ._core import UNSET, ApiError, Error, FieldError, Number, RequestTimeout, TransportError, Unset
from ._webhooks import UnknownEvent, WebhookError, verify_webhook

__all__ = [
    "UNSET",
    "ApiError",
    "Error",
    "FieldError",
    "Number",
    "RequestTimeout",
    "TransportError",
    "UnknownEvent",
    "Unset",
    "WebhookError",
    "verify_webhook",
]
__all__ += _api.__all__
