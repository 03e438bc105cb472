#!/bin/sh
# Stops the service and the watcher, except before an upgrade. Before an upgrade, dpkg passes the argument "upgrade",
# and rpm passes 1.
set -e
case "${1:-}" in
  remove | 0)
    if [ -d /run/systemd/system ]; then systemctl disable --now spoolwright.service spoolwright-watch.service; fi
    ;;
esac
