import { describe, expect, test } from 'vitest'
import { viewDevices } from './devices.ts'
import { TAG_ANNOTATION } from './names.ts'

const driver = 'gpu.example.com'
const metadata = { name: 'x' }

function slice(pool: string, generation: number, devices: readonly string[], more: object = {}, slices = 1) {
  const spec = {
    driver,
    nodeName: 'node-1',
    pool: { name: pool, generation, resourceSliceCount: slices },
    devices: devices.map((name) => ({
      name,
      attributes: { productName: { string: 'NVIDIA H100 80GB HBM3' } },
      capacity: { memory: { value: '80Gi' } },
    })),
    ...more,
  }
  return { metadata, spec }
}

function claim(pool: string, devices: readonly string[], tag?: string, more: object = {}) {
  const results = devices.map((device) => ({ driver, pool, device, ...more }))
  const annotations = tag === undefined ? {} : { [TAG_ANNOTATION]: tag }
  return { metadata: { name: 'c', annotations }, status: { allocation: { devices: { results } } } }
}

describe('devices of resource slices', () => {
  const view = (slices: Parameters<typeof viewDevices>[0], claims: Parameters<typeof viewDevices>[1] = []) =>
    viewDevices(slices, claims, { driver }, 'berth-ours-')

  test('counts the newest generation of a pool, and only if it is whole', () => {
    const old = slice('node-1', 1, ['a', 'b', 'c'])
    const half = [slice('node-1', 2, ['a', 'b'], {}, 2), slice('node-1', 2, ['c', 'd'], {}, 2)]
    expect(view([old, ...half]).devicesOf('node-1')).toEqual({
      total: 4,
      working: 4,
      product: 'NVIDIA-H100-80GB-HBM3',
      ramMib: 81_920,
    })
    expect(view([old, ...half.slice(1)]).devicesOf('node-1').total).toBe(0)
    expect(view([old]).devicesOf('node-2').total).toBe(0)
    expect(view([slice('node-1', 1, ['a'], { driver: 'nic.example.com' })]).devicesOf('node-1').total).toBe(0)
    expect(view([slice('shared', 1, ['a'], { nodeName: undefined })]).devicesOf('node-1').total).toBe(0)
  })

  test('does not sell devices with a taint, nor those of another product', () => {
    const sick = { name: 'b', taints: [{ effect: 'NoExecute' }] }
    const mixed = slice('node-1', 1, ['a'])
    const { devices } = mixed.spec
    const same = { ...sick, attributes: devices[0]?.attributes ?? {} }
    const other = { name: 'c', attributes: { productName: { string: 'NVIDIA L4' } } }
    const spec = { ...mixed.spec, devices: [...devices, same, other] }
    expect(view([{ metadata, spec }]).devicesOf('node-1')).toMatchObject({ total: 2, working: 1 })
  })

  test('counts devices of others, and not ours nor those that are only watched', () => {
    const slices = [slice('node-1', 1, ['a', 'b', 'c'])]
    const claims = [
      claim('node-1', ['a']),
      claim('node-1', ['b'], 'berth-ours-1-c0ffee00'),
      claim('node-1', ['c'], 'berth-theirs-1-c0ffee00'),
      claim('node-1', ['a', 'b', 'c'], undefined, { adminAccess: true }),
      claim('node-9', ['a']),
      { metadata },
    ]
    expect(view(slices, claims).othersOf('node-1')).toBe(2)
  })
})
