/**
 * The GPUs that virtual machines can have whole. The NVIDIA driver does not know a GPU that is bound to vfio-pci, so these
 * come from sysfs, and their model from the identifier of the device. A GPU that cannot be passed through yet is listed
 * with the reason, and is sold as soon as its owner has bound it.
 */
import fs from 'node:fs'
import path from 'node:path'
import { modelOfDevice } from '../domain/gpu-model.ts'
import { findObstacle } from '../runtimes/qemu/vfio.ts'
import type { GpuListing, GpuReading } from './gpu-listing.ts'

const NVIDIA = '0x10de'
/** Display controllers with and without an output. */
const GPU_CLASS = /^0x030[02]/

/** `root` is `/` except in tests. */
export function listPassthroughGpus(root = '/'): GpuListing {
  const folder = path.join(root, 'sys/bus/pci/devices')
  const addresses = fs.existsSync(folder) ? fs.readdirSync(folder).toSorted() : []
  const devices = addresses.filter((address) => {
    const fact = factsOf(folder, address)
    return fact('vendor') === NVIDIA && GPU_CLASS.test(fact('class'))
  })
  const notes: string[] = []
  const gpus = devices.flatMap((address): GpuReading[] => {
    const device = factsOf(folder, address)('device').replace(/^0x/, '')
    const model = modelOfDevice(device)
    if (model === undefined) {
      notes.push(`The GPU at ${address} is not offered: its model (10de:${device}) is not known to this version.`)
      return []
    }
    const obstacle = findObstacle(address, root)
    return [
      {
        gpu: {
          uuid: `PCI-${address.replaceAll(/[:.]/g, '-')}`,
          name: model.name,
          ramMib: model.ramMib,
          clockMhz: model.clockMhz,
          interface: model.interface,
          // The spelling of nvidia-smi: a GPU keeps its index when it changes its driver.
          pciAddress: `0000${address.toUpperCase()}`,
        },
        use: {
          utilizationPercent: null,
          memoryUsedMib: null,
          memoryTotalMib: null,
          powerWatts: null,
          temperatureCelsius: null,
        },
        problems: obstacle === undefined ? [] : [obstacle],
      },
    ]
  })
  return { gpus, notes, ...(devices.length === 0 ? { reason: 'This machine has no NVIDIA GPU.' } : {}) }
}

/** Reads a file of the device, such as `vendor`; an empty text if there is none. */
function factsOf(folder: string, address: string): (name: string) => string {
  return (name) => {
    const file = path.join(folder, address, name)
    return fs.existsSync(file) ? fs.readFileSync(file, 'utf8').trim() : ''
  }
}
