/** Volumes of containers: file systems made by the keeper of a host whose disk really fills up. */
import { describe } from 'vitest'
import { whyNoStorageLab } from '../../../test/lab/storage-lab.ts'
import { OFFERED_GB, volumeHarness } from '../../../test/lab/volume-host.ts'
import { volumeConformance } from '../../drivers/conformance-volumes.ts'
import { ContainerVolumes, whyNoVolumes } from './volumes.ts'
import { needs } from '../../../test/needs.ts'

needs('nfs')

const reason = whyNoVolumes() ?? whyNoStorageLab()
const skipNote = reason === null ? '' : ` (${reason})`

describe.skipIf(reason !== null)(`on a host with ${OFFERED_GB} GB${skipNote}`, () => {
  volumeConformance('a host with containers', () =>
    volumeHarness({
      overcommit: 1,
      offering: 'marketplace',
      open: (folder) => new ContainerVolumes(folder),
      files: 'images',
      ending: '.img',
    }),
  )
})
