/**
 * Builds the scripts for bare-metal hosts: a constant prelude, one line per input value, and the body. All text is from
 * this source; values come on standard input (ssh.ts). The scripts run on Debian and busybox: no bash, no GNU options.
 *
 * The state is on the host: `/var/lib/berth/tenant` (the marker) has a line for each fact of its tenant (tag, id, user,
 * uid, boot, phase, reboots), and `disks/<volume>` the mount point of each volume. Phases:
 *
 *   taken       reserved, nothing created yet
 *   making      user and keys are being created
 *   ready       the tenant can log in
 *   rebooting   the tenant was removed during the boot `rebootfrom`; proven once that boot is over
 */
import type { ConstantScript } from './ssh.ts'

/** Exit status when another script of ours is running on the host. */
export const BUSY_STATUS = 75

const beginning = String.raw`
set -u
umask 077
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
export PATH LC_ALL
state=/var/lib/berth
marker=$state/tenant
held=/run/berth.lock
fail() { printf '%s\n' "$1" >&2; exit 1; }
take() { IFS= read -r line || exit 64; printf %s "$line" | base64 -d; }
boot_id() { cat /proc/sys/kernel/random/boot_id; }
field() { [ ! -e "$marker" ] || sed -n "/^$1 /{s/^$1 //p;q;}" "$marker"; }
note() {
  { [ ! -e "$marker" ] || grep -v "^$1 " "$marker"; printf '%s %s\n' "$1" "$2"; } > "$marker.new" &&
    mv "$marker.new" "$marker" || fail "cannot write $marker"
}
# The marker must survive a power loss; other writes may wait.
settle() { { [ ! -e "$marker" ] || sync "$marker"; } 2> /dev/null && sync "$state" 2> /dev/null || sync; }
is_user() { grep -q "^$1:" /etc/passwd; }
uid_of() { sed -n "/^$1:/{s/^$1:[^:]*:\([0-9]*\):.*/\1/p;q;}" /etc/passwd; }
is_mounted() { grep -qF -- " $1 " /proc/mounts; }
limited() { if command -v timeout > /dev/null; then timeout 20 "$@"; else "$@"; fi; }
# A killed server may have left a script running.
exclusive() {
  tries=0
  until mkdir "$held" 2> /dev/null; do
    owner=$(cat "$held/pid" 2> /dev/null)
    [ -n "$owner" ] || [ "$tries" -lt 5 ] || owner=none
    if [ -n "$owner" ] && [ ! -d "/proc/$owner" ]; then rm -rf "$held"; continue; fi
    tries=$((tries + 1))
    [ "$tries" -le 30 ] || exit 75
    sleep 1
  done
  echo $$ > "$held/pid"
  trap 'rm -rf "$held"' EXIT
}
without_block() { sed '/^# berth begin$/,/^# berth end$/d' /etc/hosts; }
# Mount points of local disks and memory.
local_mounts() {
  while read -r device at type rest; do
    case $type in
      proc|sysfs|devpts|devtmpfs|cgroup|cgroup2|securityfs|debugfs|tracefs|pstore|efivarfs|bpf|configfs) continue ;;
      fusectl|autofs|rpc_pipefs|nfsd|binfmt_misc|nsfs|squashfs|iso9660|erofs|selinuxfs|fuse|fuse.*) continue ;;
      nfs|nfs4|cifs|smb3|ceph|lustre|gpfs|beegfs|9p|virtiofs|afs|ocfs2|gfs2) continue ;;
    esac
    at=$(printf '%b' "$at")
    [ ! -d "$at" ] || printf '%s\n' "$at"
  done < /proc/mounts | sort -u
}
`

export function constantScript<Name extends string>(
  name: string,
  reads: readonly Name[],
  body: string,
): ConstantScript<Name> {
  const reading = reads.map((one) => `${one}=$(take) || exit 64`).join('\n')
  return { name, reads, text: `${beginning}\n${reading}\n${body}` }
}
