/** How a volume is used on a machine: a folder that is mounted already, or a disk that wants a file system first. */
import type { Volume } from '../../../src/view/volume.ts'
import { CopyLine } from '../../ui/copy.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Facts } from '../../ui/card.tsx'
import { Notice } from '../../ui/notice.tsx'

export function MountDialog({ volume, onClose }: { volume: Volume; onClose: () => void }) {
  const at = `/mnt/${volume.label}`
  const isAttached = volume.attachedRentals.length > 0
  return (
    <Dialog title={`Use ${volume.label}`} onClose={onClose}>
      <div className="flex flex-col gap-4 text-sm">
        {!isAttached && <Notice>It is not attached to any machine yet. Attach it first.</Notice>}
        {isFolder(volume.vip) ? (
          <>
            <p className="text-muted">
              It is a shared folder: every machine that it is attached to mounts it by itself, also after a reboot, and
              its user may write there.
            </p>
            <CopyLine label="Go there" text={`cd ${at}`} />
            <CopyLine label="See how much is free" text={`df -h ${at}`} />
            <Facts
              facts={[
                [
                  'Mounted at',
                  <code key="at" className="font-mono">
                    {at}
                  </code>,
                ],
                [
                  'Served by',
                  <code key="vip" className="font-mono">
                    {volume.vip}
                  </code>,
                ],
                ['Protocol', 'NFS 4.1'],
              ]}
            />
          </>
        ) : (
          <>
            <p className="text-muted">
              It is a disk on the host <code className="font-mono">{volume.vip}</code>, and empty at first. Make a file
              system once, then mount it; unmount it before you detach it.
            </p>
            <CodeBlock label="Find, format and mount the disk" code={diskLines(volume.label, at)} />
          </>
        )}
      </div>
    </Dialog>
  )
}

/** Folders come from a file server's address, disks from a host's name. */
function isFolder(vip: string): boolean {
  return /^[\d.]+$/.test(vip) || vip.includes(':')
}

/** The disk carries its label as its model, which the kernel cuts at 16 letters. */
function diskLines(label: string, at: string): string {
  const model = label.slice(0, 16)
  return [
    `disk=/dev/$(grep -l '^${model}' /sys/block/*/device/model | cut -d/ -f4)`,
    'sudo mkfs.ext4 "$disk"     # once: this empties it',
    `sudo mkdir -p ${at} && sudo mount "$disk" ${at}`,
  ].join('\n')
}
