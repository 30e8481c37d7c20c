/** How a volume is used on a machine: a folder that is mounted already, or a disk that wants a file system first. */
import type { Volume } from '../../../src/view/volume.ts'
import { CodeBlock, CopyLine } from '../../ui/copy.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Code, Facts } from '../../ui/card.tsx'
import { Notice } from '../../ui/notice.tsx'

export function MountDialog({ volume, onClose }: { volume: Volume; onClose: () => void }) {
  const at = `/mnt/${volume.label}`
  const isAttached = volume.attachedRentals.length > 0
  return (
    <Dialog title={`Mount ${volume.label}`} onClose={onClose}>
      <div className="flex flex-col gap-4 text-sm">
        {!isAttached && <Notice>Attach the volume to a machine first.</Notice>}
        {isFolder(volume.vip) ? (
          <>
            <p className="text-muted">
              A shared folder. Attached machines mount it automatically, including after a reboot, and the login user
              can write to it.
            </p>
            <CopyLine label="Open the folder" text={`cd ${at}`} />
            <CopyLine label="Show free space" text={`df -h ${at}`} />
            <Facts
              facts={[
                ['Mounted at', <Code key="at" text={at} />],
                ['Served by', <Code key="vip" text={volume.vip} />],
                ['Protocol', 'NFS 4.1'],
              ]}
            />
          </>
        ) : (
          <>
            <p className="text-muted">
              A disk on the host <code className="font-mono">{volume.vip}</code>, empty at first. Create a file system
              once, then mount it. Unmount it before you detach it.
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

/** The disk reports its label as its model, which the kernel cuts at 16 characters. */
function diskLines(label: string, at: string): string {
  const model = label.slice(0, 16)
  return [
    `disk=/dev/$(grep -l '^${model}' /sys/block/*/device/model | cut -d/ -f4)`,
    'sudo mkfs.ext4 "$disk"     # first use only: erases the disk',
    `sudo mkdir -p ${at} && sudo mount "$disk" ${at}`,
  ].join('\n')
}
