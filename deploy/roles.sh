#!/bin/sh
# Creates the database, its owner and the login of the service. farm_owner only migrates the database. farm_service
# owns nothing. The PostgreSQL image runs this script when it creates a new cluster. psql reads the passwords from the
# environment, because other accounts can see arguments.
set -eu
: "${OWNER_PASSWORD:?}" "${SERVICE_PASSWORD:?}"
psql -v ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'END'
\getenv owner OWNER_PASSWORD
\getenv service SERVICE_PASSWORD
CREATE ROLE farm_owner LOGIN PASSWORD :'owner';
CREATE ROLE farm_service LOGIN PASSWORD :'service';
CREATE ROLE spoolwright_app NOLOGIN;
GRANT spoolwright_app TO farm_service;
CREATE DATABASE farm OWNER farm_owner ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE farm FROM PUBLIC;
GRANT CONNECT ON DATABASE farm TO farm_service;
END
