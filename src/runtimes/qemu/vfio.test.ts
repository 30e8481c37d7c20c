import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { checkPassthrough } from './vfio.ts'

const GPU = '0000:01:00.0'
let root: string

beforeEach(() => (root = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-sysfs-'))))
afterEach(() => fs.rmSync(root, { recursive: true, force: true }))

/** A device as sysfs shows it. */
function addDevice(address: string, parts: { group?: string; driver?: string; class: string }): void {
  const folder = path.join(root, 'sys/bus/pci/devices', address)
  fs.mkdirSync(folder, { recursive: true })
  fs.writeFileSync(path.join(folder, 'class'), `${parts.class}\n`)
  if (parts.group !== undefined) {
    const members = path.join(root, 'sys/kernel/iommu_groups', parts.group, 'devices')
    fs.mkdirSync(members, { recursive: true })
    fs.symlinkSync(path.join(root, 'sys/kernel/iommu_groups', parts.group), path.join(folder, 'iommu_group'))
    fs.symlinkSync(folder, path.join(members, address))
  }
  if (parts.driver !== undefined) {
    const driver = path.join(root, 'sys/bus/pci/drivers', parts.driver)
    fs.mkdirSync(driver, { recursive: true })
    fs.symlinkSync(driver, path.join(folder, 'driver'))
  }
}

function addNode(group: string): void {
  fs.mkdirSync(path.join(root, 'dev/vfio'), { recursive: true })
  fs.writeFileSync(path.join(root, 'dev/vfio', group), '')
}

const gpu = { group: '7', driver: 'vfio-pci', class: '0x030200' }

describe('a GPU', () => {
  test('passes through when alone in its group, with any spelling of its address', () => {
    addDevice(GPU, gpu)
    addDevice('0000:01:00.1', { group: '7', driver: 'snd_hda_intel', class: '0x040300' })
    addDevice('0000:00:01.0', { group: '7', driver: 'pcieport', class: '0x060400' })
    addNode('7')
    const handed = { ok: true, args: ['-device', 'vfio-pci,host=0000:01:00.0'] }
    expect(checkPassthrough(GPU, root)).toEqual(handed)
    expect(checkPassthrough('00000000:01:00.0', root)).toEqual(handed)
  })

  test.each([
    ['that does not exist', () => {}, /no PCI device/],
    ['without an IOMMU', () => addDevice(GPU, { driver: 'vfio-pci', class: '0x030200' }), /no IOMMU group/],
    [
      'that the host uses itself',
      () => addDevice(GPU, { ...gpu, driver: 'nvidia' }),
      /driver nvidia .* needs vfio-pci/,
    ],
    ['without a driver', () => addDevice(GPU, { group: '7', class: '0x030200' }), /driver none/],
    ['whose group is closed to us', () => addDevice(GPU, gpu), /dev\/vfio\/7 cannot be opened \(ENOENT\)/],
    [
      'that shares its group',
      () => {
        addDevice(GPU, gpu)
        addDevice('0000:02:00.0', { group: '7', driver: 'nvme', class: '0x010802' })
        addNode('7')
      },
      /shares its IOMMU group 7 with 0000:02:00.0/,
    ],
  ])('%s cannot be passed through, for a stated reason', (_, make, reason) => {
    make()
    expect(checkPassthrough(GPU, root)).toMatchObject({
      ok: false,
      isBusy: false,
      reason: expect.stringMatching(reason),
    })
  })

  test('is identified by a PCI address only', () => {
    for (const bad of ['', '../../etc', '01:00.0', `${GPU},x-evil=on`]) {
      expect(checkPassthrough(bad, root)).toMatchObject({ ok: false, reason: expect.stringContaining('PCI address') })
    }
  })
})
