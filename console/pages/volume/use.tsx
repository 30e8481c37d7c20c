/** How to use a volume on a machine: a folder that is mounted already, or a disk that needs a file system first. */
import type { Volume } from '../../../src/view/volume.ts'
import { CodeBlock, CopyLine } from '../../ui/copy.tsx'
import { Card } from '../../ui/card.tsx'

/** Shown only for volumes that are attached to running machines: orders name a path and need nothing else. */
export function UseCard({ volume }: { volume: Volume }) {
  const at = `/mnt/${volume.label}`
  if (volume.vip === '' || volume.supports.attach.length === 0) return null
  if (volume.supports.attach.includes('bare-metal')) {
    return (
      <Card title="On bare metal">
        <div className="flex flex-col gap-3 text-sm">
          <p className="text-muted">
            A shared folder (NFS 4.1, from <span className="font-mono">{volume.vip}</span>). Machines mount it
            automatically, including after a reboot, and the login user can write to it.
          </p>
          <CopyLine label="Open the folder" text={`cd ${at}`} />
          <CopyLine label="Show free space" text={`df -h ${at}`} />
        </div>
      </Card>
    )
  }
  return (
    <Card title="Mounting it yourself">
      <div className="flex flex-col gap-3 text-sm">
        <p className="text-muted">
          A virtual machine mounts it at its path when it boots. To use it right after attaching it, create a file
          system once, then mount it. Unmount it before you detach it.
        </p>
        <CodeBlock label="Find, format and mount the disk" code={diskLines(volume.label, at)} />
      </div>
    </Card>
  )
}

/** The disk reports its label as its model, cut to 16 characters by the kernel. */
function diskLines(label: string, at: string): string {
  const model = label.slice(0, 16)
  return [
    `disk=/dev/$(grep -l '^${model}' /sys/block/*/device/model | cut -d/ -f4)`,
    'sudo mkfs.ext4 "$disk"     # first use only: erases the disk',
    `sudo mkdir -p ${at} && sudo mount "$disk" ${at}`,
  ].join('\n')
}
