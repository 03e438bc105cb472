#!/bin/sh
# Creates the account. The administrator starts the service or the watcher. After an upgrade, this script restarts
# those that run.
set -e
if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers spoolwright.conf
elif ! getent passwd spoolwright >/dev/null; then
  useradd --system --home-dir /var/lib/spoolwright --shell /usr/sbin/nologin spoolwright
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart spoolwright.service spoolwright-watch.service
fi
