#!/bin/sh
# Stops the service, unless this is an upgrade: then dpkg passes "upgrade", and rpm 1.
set -e
case "${1:-}" in
  remove | 0)
    if [ -d /run/systemd/system ]; then systemctl disable --now spoolwright.service; fi
    ;;
esac
