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
  const device = findDevice(pciAddress, root)
  if ('obstacle' in device) return { ok: false, isBusy: false, reason: device.obstacle }
  const { address, group } = device
  try {
    fs.closeSync(fs.openSync(path.join(root, 'dev/vfio', group), 'r+'))
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
    if (code === 'EBUSY') return { ok: false, isBusy: true, reason: `${address} is in use by another machine` }
    return { ok: false, isBusy: false, reason: `/dev/vfio/${group} cannot be opened (${code})` }
  }
  return { ok: true, args: ['-device', `vfio-pci,host=${address}`] }
}

/**
 * The reason why no machine can have the device; undefined if one can, or has it. Opens nothing: a group that is open
 * here at the wrong moment is busy for the machine that starts.
 */
export function findObstacle(pciAddress: string, root = '/'): string | undefined {
  const device = findDevice(pciAddress, root)
  return 'obstacle' in device ? device.obstacle : undefined
}

function findDevice(
  pciAddress: string,
  root: string,
): { readonly address: string; readonly group: string } | { readonly obstacle: string } {
  const address = pciAddress.toLowerCase().replace(/^[0-9a-f]{4}(?=[0-9a-f]{4}:)/, '')
  if (!ADDRESS.test(address)) return { obstacle: `${pciAddress} is not a PCI address such as 0000:01:00.0` }
  const device = path.join(root, 'sys/bus/pci/devices', address)
  if (!fs.existsSync(device)) return { obstacle: `There is no PCI device ${address}` }
  const group = linkName(path.join(device, 'iommu_group'))
  if (group === undefined) {
    return {
      obstacle: `${address} has no IOMMU group: switch the IOMMU on in the firmware and the kernel (intel_iommu=on)`,
    }
  }
  const neighbors = fs
    .readdirSync(path.join(root, 'sys/kernel/iommu_groups', group, 'devices'))
    .filter((other) => deviceOf(other) !== deviceOf(address) && !isBridge(root, other))
  if (neighbors.length > 0) {
    return { obstacle: `${address} shares its IOMMU group ${group} with ${neighbors.toSorted().join(', ')}` }
  }
  const driver = linkName(path.join(device, 'driver'))
  if (driver !== 'vfio-pci') return { obstacle: `${address} has the driver ${driver ?? 'none'} and needs vfio-pci` }
  return { address, group }
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
