### psql
psql() { command psql -q -h 127.0.0.1 -U postgres "$@"; }

### plain
GRAPNEL_STORE=${GRAPNEL_STORE%\?*}?sslmode=disable
