#!/usr/bin/env bash
# Runs a command of the project in a fresh Debian 12: a minimal system in a folder of its own, which has nothing of this machine but
# a clone of the commit that is checked out, where the command is run, in the same place what FILES names, and the certificates
# that this machine trusts. Needs root and debootstrap; the folder (some 2 GB under $TMPDIR) is removed at the end.
#   scripts/fresh/debian.sh scripts/fresh/python_install.sh
#   FILES="build/release/*.deb" scripts/fresh/debian.sh scripts/fresh/packages.sh
# CMAKE_ARGS is passed on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ $# -gt 0 ] || { echo "usage: scripts/fresh/debian.sh COMMAND..." >&2; exit 2; }

system="$(realpath "$(mktemp -d)")"
chmod 755 "$system"  # its root folder, which all of its users search
log="$(mktemp)"
# clean_up: ends what still runs in the system, and removes it.
clean_up() {
  local process
  for process in /proc/[0-9]*; do
    [ "$(readlink "$process/root")" != "$system" ] || kill -9 "${process#/proc/}" || true
  done
  umount -l "$system/dev/pts" "$system/proc" "$system/dev" 2>/dev/null || true
  rm -f "$log"
  if mountpoint -q "$system/proc" || mountpoint -q "$system/dev"; then
    echo "fresh/debian: $system is not removed, because it still has this machine's /proc or /dev" >&2
    return
  fi
  rm -rf --one-file-system "$system"
}
trap clean_up EXIT

# inside DIRECTORY COMMAND...
inside() {
  local directory="$1"
  shift
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive CMAKE_ARGS="${CMAKE_ARGS:-}" \
    chroot "$system" sh -c 'cd "$1" && shift && exec "$@"' sh "$directory" "$@" </dev/null
}

echo "fresh/debian: making a minimal system" >&2
debootstrap --variant=minbase bookworm "$system" >"$log" 2>&1 || { tail "$log" >&2; exit 1; }
for folder in proc dev dev/pts; do mount --bind "/$folder" "$system/$folder"; done
inside / apt-get install -qq --no-install-recommends git ca-certificates >/dev/null
cp /etc/ssl/certs/ca-certificates.crt "$system/etc/ssl/certs/"
git clone --quiet --no-hardlinks . "$system/root/neap"
for file in ${FILES:-}; do
  mkdir -p "$system/root/neap/$(dirname "$file")"
  cp "$file" "$system/root/neap/$file"
done
inside /root/neap "$@"
