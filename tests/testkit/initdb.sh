#!/bin/sh
# initdb -D DATA --pwfile=FILE ...: keeps a copy of the first cluster of each account beside this script, and copies
# that from then on. A copy takes a tenth of the time. The folder of the true programs comes from testkit.
kept=$(dirname "$0")/cluster-$(id -u)
for argument; do
	case $argument in
	--pwfile=*) password=$(cat "${argument#*=}") || exit ;;
	--no-sync) ;;
	-*) kept=$kept$argument ;;
	*) data=$argument ;;
	esac
done
if [ -d "$kept" ]; then
	cp -a "$kept" "$data" && echo "alter role postgres password '$password'" |
		"$POSTGRES/postgres" --single -F -D "$data" template1 >/dev/null
	exit
fi
"$POSTGRES/initdb" "$@" || exit
# Of several first runs at once, one keeps its cluster.
mkdir "$kept.made" 2>/dev/null && cp -a "$data" "$kept.new" && mv "$kept.new" "$kept"
exit 0
