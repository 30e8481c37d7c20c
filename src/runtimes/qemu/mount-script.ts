/**
 * The script with which a machine mounts its volumes at every boot: cloud-init runs it as a boot hook, the small image
 * directly. It finds each disk by its serial, formats an empty one, and leaves everything else as it is.
 */
import type { Disk } from '../../contract/agent.ts'
import { NeverStarts } from '../runtime.ts'

const SERIAL_CHARS = 20
/** The file is part of the seed of the small image. */
export const MOUNT_FILE = 'mounts'

/** Matches text that a shell reads as a single word. */
const WORD = /^[\w./@+-]+$/

const functions = `mount_volume() {
  serial=$1 path=$2 mode=$3 disk=
  tries=0
  while [ -z "$disk" ] && [ $tries -lt 100 ]; do
    for one in /sys/block/sd*; do
      grep -q "$serial" "$one/device/vpd_pg80" 2>/dev/null && disk=/dev/\${one##*/}
    done
    [ -n "$disk" ] || sleep 0.1
    tries=$((tries + 1))
  done
  [ -n "$disk" ] || { echo "berth: the volume for $path was not found"; return; }
  grep -q " $path " /proc/mounts && return
  mkdir -p "$path"
  if [ "$mode" = ro ]; then
    # The file system may not have been unmounted cleanly, and its journal cannot be replayed.
    mount -t ext4 -o ro "$disk" "$path" || mount -t ext4 -o ro,noload "$disk" "$path" || mount -o ro "$disk" "$path"
    return
  fi
  if [ "$(head -c 65536 "$disk" | tr -d '\\000' | wc -c)" -eq 0 ]; then
    mkfs.ext4 -q -F -E lazy_itable_init=1,lazy_journal_init=1,nodiscard "$disk"
  fi
  mount -t ext4 -o nosuid,nodev "$disk" "$path" || mount "$disk" "$path" || return
  # After the volume has grown.
  if command -v resize2fs > /dev/null; then resize2fs "$disk" > /dev/null 2>&1; fi
}
`

/** The serial number of the disk of a volume. */
export function serialOf(volumeId: string): string {
  return volumeId.slice(-SERIAL_CHARS)
}

/** Returns an empty script if no disk has a path. */
export function mountScript(disks: readonly Disk[]): string {
  const calls = disks.flatMap(({ volumeId, path, readOnly }) => {
    if (path === undefined) return []
    const serial = serialOf(volumeId)
    if (!WORD.test(path) || !WORD.test(serial)) {
      throw new NeverStarts('volume_unavailable', `${JSON.stringify(path)} is not a valid mount path.`)
    }
    return [`mount_volume ${serial} ${path} ${readOnly === true ? 'ro' : 'rw'}`]
  })
  return calls.length === 0 ? '' : `#!/bin/sh\n${functions}${calls.join('\n')}\n`
}
