/** Disks of virtual machines as volumes: files made by the keeper of a host whose disk really fills up. */
import { describe } from 'vitest'
import { whyNoQemu } from '../../../test/lab/qemu-lab.ts'
import { whyNoStorageLab } from '../../../test/lab/storage-lab.ts'
import { OFFERED_GB, volumeHarness } from '../../../test/lab/volume-host.ts'
import { volumeConformance, type VolumeHarness } from '../../drivers/conformance-volumes.ts'
import { qemuVolumes } from './volumes.ts'
import { needs } from '../../../test/needs.ts'

needs('qemu', 'nfs')

const reason = whyNoQemu() ?? whyNoStorageLab()

describe.skipIf(reason !== null)(`on a host with ${OFFERED_GB} GB${reason === null ? '' : ` (${reason})`}`, () => {
  volumeConformance('a host that reserves blocks', () => makeHarness(1))
  volumeConformance('a host whose disk is promised many times over', () => makeHarness(1_000))
})

function makeHarness(overcommit: number): Promise<VolumeHarness> {
  const open = (folder: string) => qemuVolumes(folder)
  return volumeHarness({ overcommit, offering: 'virtual-machine', open, files: '', ending: '.qcow2' })
}
