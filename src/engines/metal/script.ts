/**
 * How the scripts for bare-metal hosts are put together: a constant beginning, a line for each value that is read, and
 * the body. All of it is text of this source; values come on standard input (ssh.ts). They run on Debian and on busybox
 * alike: no bash, no GNU options, nothing but what both have.
 *
 * What we know of a host is on the host: `/var/lib/berth/tenant` has a line for each fact of its tenant (tag, id, user,
 * uid, boot, phase), and `disks/<volume>` says where each volume is mounted. The phases:
 *
 *   taken       the host is spoken for, and nothing was made yet
 *   making      user and keys are being made
 *   ready       the tenant can log in
 *   rebooting   everything of the tenant was removed in the boot `rebootfrom`; it counts when that boot is over
 */
import type { ConstantScript } from './ssh.ts'

/** A script ends with this status when another one of ours is at work on the host. */
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
field() { [ ! -e "$marker" ] || sed -n "s/^$1 //p" "$marker" | head -n 1; }
note() {
  { [ ! -e "$marker" ] || grep -v "^$1 " "$marker"; printf '%s %s\n' "$1" "$2"; } > "$marker.new" &&
    mv "$marker.new" "$marker" || fail "cannot write $marker"
}
# The mark must be there after a loss of power, or be gone; other writes may wait.
settle() { { [ ! -e "$marker" ] || sync "$marker"; } 2> /dev/null && sync "$state" 2> /dev/null || sync; }
is_user() { grep -q "^$1:" /etc/passwd; }
uid_of() { sed -n "s/^$1:[^:]*:\([0-9]*\):.*/\1/p" /etc/passwd | head -n 1; }
is_mounted() { grep -qF -- " $1 " /proc/mounts; }
limited() { if command -v timeout > /dev/null; then timeout 20 "$@"; else "$@"; fi; }
# A server that was killed may have left a script of ours at work here.
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
# Mount points of what is on disks or in the memory of this machine.
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
