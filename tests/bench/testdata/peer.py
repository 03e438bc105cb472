"""The spools of Spoolwright's API as a service with FastAPI and asyncpg, for the benchmark Peers.

It is what a developer would write for the same contract: validated bodies, an API key that is looked up in each
request, a filter by tenant in each statement, and an entry of the ledger for each change of a weight.
"""
import datetime
import hashlib
import os
import typing
import uuid
from contextlib import asynccontextmanager

import asyncpg
from fastapi import Depends, FastAPI, Header, HTTPException, Query, Request
from pydantic import BaseModel, Field

MaterialType = typing.Literal["PLA", "PETG", "ABS", "TPU", "ASA", "Nylon", "PC", "HIPS", "PVA", "Custom"]
Weight = typing.Annotated[float, Field(ge=0, le=1_000_000)]
Positive = typing.Annotated[float, Field(gt=0, le=1_000_000)]
Text = typing.Annotated[str, Field(max_length=200)]


class NewSpool(BaseModel):
    material_type: MaterialType
    brand: Text | None = None
    color: typing.Annotated[str, Field(min_length=1, max_length=200)]
    color_hex: typing.Annotated[str, Field(pattern="^#[0-9A-Fa-f]{6}$")] | None = None
    finish: Text | None = None
    diameter_mm: typing.Literal[1.75, 2.85]
    net_weight_grams: Positive
    remaining_weight_grams: Weight | None = None
    spool_weight_grams: Weight | None = None
    purchase_price: Weight | None = None
    supplier: Text | None = None
    purchase_date: datetime.date | None = None
    notes: typing.Annotated[str, Field(max_length=10_000)] | None = None


class Spool(NewSpool):
    id: uuid.UUID
    diameter_mm: float
    remaining_weight_grams: float
    cost_per_gram: float | None
    created_at: datetime.datetime
    updated_at: datetime.datetime


class Spools(BaseModel):
    items: list[Spool]
    total: int
    skip: int
    limit: int


class Deduction(BaseModel):
    weight_grams: Positive
    reason: Text | None = None


class Deducted(BaseModel):
    id: uuid.UUID
    remaining_weight_grams: float
    deducted: float


FIELDS = list(NewSpool.model_fields)
COLUMNS = ", ".join([*FIELDS, "id", "cost_per_gram", "created_at", "updated_at"])
VALUES = ", ".join(f"${n}" for n in range(2, 2 + len(FIELDS)))
INSERT = f"insert into spools (tenant_id, {', '.join(FIELDS)}) values ($1, {VALUES}) returning {COLUMNS}"
LEDGER = """insert into spool_usage (tenant_id, spool_id, api_key_id, kind, before_grams, after_grams, reason)
    values ($1, $2, $3, $4, $5, $6, $7)"""


@asynccontextmanager
async def lifespan(app: FastAPI):
    async with asyncpg.create_pool(os.environ["DATABASE_URL"]) as pool:
        app.state.pool = pool
        yield


app = FastAPI(lifespan=lifespan)


async def connection(request: Request):
    async with request.app.state.pool.acquire() as conn:
        yield conn


Conn = typing.Annotated[asyncpg.Connection, Depends(connection)]


async def caller(conn: Conn, x_api_key: typing.Annotated[str, Header()]):
    key = await conn.fetchrow(
        "select id, tenant_id from api_keys where hash = $1 and revoked_at is null and expires_at > now()",
        hashlib.sha256(x_api_key.encode()).digest(),
    )
    if key is None:
        raise HTTPException(401, "The API key is not valid")
    return key


Caller = typing.Annotated[asyncpg.Record, Depends(caller)]
NOT_FOUND = HTTPException(404, "There is no spool with this id")


@app.get("/api/v1/spools/{id}", response_model=Spool)
async def get_spool(id: uuid.UUID, conn: Conn, caller: Caller):
    statement = f"select {COLUMNS} from spools where tenant_id = $1 and id = $2"
    row = await conn.fetchrow(statement, caller["tenant_id"], id)
    if row is None:
        raise NOT_FOUND
    return dict(row)


@app.get("/api/v1/spools", response_model=Spools)
async def list_spools(
    conn: Conn,
    caller: Caller,
    skip: typing.Annotated[int, Query(ge=0)] = 0,
    limit: typing.Annotated[int, Query(ge=1, le=100)] = 20,
):
    tenant = caller["tenant_id"]
    rows = await conn.fetch(
        f"select {COLUMNS} from spools where tenant_id = $1 order by created_at desc, id desc limit $2 offset $3",
        tenant, limit, skip,
    )
    total = await conn.fetchval("select count(*) from spools where tenant_id = $1", tenant)
    return {"items": [dict(row) for row in rows], "total": total, "skip": skip, "limit": limit}


@app.post("/api/v1/spools", response_model=Spool, status_code=201)
async def create_spool(spool: NewSpool, conn: Conn, caller: Caller):
    if spool.remaining_weight_grams is None:
        spool.remaining_weight_grams = spool.net_weight_grams
    tenant = caller["tenant_id"]
    async with conn.transaction():
        row = await conn.fetchrow(INSERT, tenant, *(getattr(spool, name) for name in FIELDS))
        await conn.execute(LEDGER, tenant, row["id"], caller["id"], "created", 0, row["remaining_weight_grams"], None)
    return dict(row)


@app.post("/api/v1/spools/{id}/deduct", response_model=Deducted)
async def deduct(id: uuid.UUID, body: Deduction, conn: Conn, caller: Caller):
    tenant = caller["tenant_id"]
    async with conn.transaction():
        row = await conn.fetchrow(
            """update spools set remaining_weight_grams = remaining_weight_grams - $3, updated_at = now()
            where tenant_id = $1 and id = $2 and remaining_weight_grams >= $3
            returning remaining_weight_grams as after, remaining_weight_grams + $3 as before""",
            tenant, id, body.weight_grams,
        )
        if row is None:
            if await conn.fetchval("select 1 from spools where tenant_id = $1 and id = $2", tenant, id) is None:
                raise NOT_FOUND
            raise HTTPException(400, "The spool has less filament")
        await conn.execute(LEDGER, tenant, id, caller["id"], "deducted", row["before"], row["after"], body.reason)
    return {"id": id, "remaining_weight_grams": row["after"], "deducted": body.weight_grams}
