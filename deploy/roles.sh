#!/bin/sh
# Creates the database with an owner, which only migrates, and a login for the service that owns nothing. The PostgreSQL
# image runs this script when it creates a new cluster.
set -eu
psql -v ON_ERROR_STOP=1 -v owner="$OWNER_PASSWORD" -v service="$SERVICE_PASSWORD" \
  --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'END'
CREATE ROLE farm_owner LOGIN PASSWORD :'owner';
CREATE ROLE farm_service LOGIN PASSWORD :'service';
CREATE ROLE spoolwright_app NOLOGIN;
GRANT spoolwright_app TO farm_service;
CREATE DATABASE farm OWNER farm_owner ENCODING 'UTF8' TEMPLATE template0;
END
