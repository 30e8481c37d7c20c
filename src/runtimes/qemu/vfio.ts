/**
 * Checks whether a PCI device can be passed through. That needs an IOMMU, the kernel module vfio-pci, and an IOMMU group
 * that the device shares with no other one: devices of one group can reach each other's memory. Bridges and other
 * functions of the device (a GPU's audio) may share it. A refusal has a reason, for the owner of the host.
 */
import fs from 'node:fs'
import path from 'node:path'

export type Passthrough =
  | { readonly ok: true; readonly args: readonly string[] }
  /** `isBusy`: another machine uses the device now. */
  | { readonly ok: false; readonly isBusy: boolean; readonly reason: string }

const ADDRESS = /^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$/
const BRIDGE_CLASS = '0x0604'

/** `root` is `/` except in tests. */
export function checkPassthrough(pciAddress: string, root = '/'): Passthrough {
  const address = pciAddress.toLowerCase().replace(/^[0-9a-f]{4}(?=[0-9a-f]{4}:)/, '')
  if (!ADDRESS.test(address)) return refuse(`${pciAddress} is not a PCI address such as 0000:01:00.0`)
  const device = path.join(root, 'sys/bus/pci/devices', address)
  if (!fs.existsSync(device)) return refuse(`There is no PCI device ${address}`)
  const group = linkName(path.join(device, 'iommu_group'))
  if (group === undefined) {
    return refuse(`${address} has no IOMMU group: switch the IOMMU on in the firmware and the kernel (intel_iommu=on)`)
  }
  const neighbor = fs
    .readdirSync(path.join(root, 'sys/kernel/iommu_groups', group, 'devices'))
    .find((other) => deviceOf(other) !== deviceOf(address) && !isBridge(root, other))
  if (neighbor !== undefined) return refuse(`${address} shares its IOMMU group ${group} with ${neighbor}`)
  const driver = linkName(path.join(device, 'driver'))
  if (driver !== 'vfio-pci') return refuse(`${address} has the driver ${driver ?? 'none'} and needs vfio-pci`)
  const node = path.join(root, 'dev/vfio', group)
  try {
    fs.closeSync(fs.openSync(node, 'r+'))
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
    if (code === 'EBUSY') return { ok: false, isBusy: true, reason: `${address} is in use by another machine` }
    return refuse(`/dev/vfio/${group} cannot be opened (${code})`)
  }
  return { ok: true, args: ['-device', `vfio-pci,host=${address}`] }
}

function refuse(reason: string): Passthrough {
  return { ok: false, isBusy: false, reason }
}

/** The part of a PCI address that names the device, without the number of the function. */
function deviceOf(address: string): string {
  return address.split('.')[0] ?? address
}

function isBridge(root: string, address: string): boolean {
  const file = path.join(root, 'sys/bus/pci/devices', address, 'class')
  return fs.existsSync(file) && fs.readFileSync(file, 'utf8').startsWith(BRIDGE_CLASS)
}

function linkName(link: string): string | undefined {
  return fs.existsSync(link) ? path.basename(fs.readlinkSync(link)) : undefined
}
