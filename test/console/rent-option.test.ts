/** Which order options can be combined, without a browser. */
import { expect, test } from 'vitest'
import { choose, selectionOf, type Option } from '../../console/pages/rent/option.ts'

const option = (
  region: Option['region'],
  costPerHour: number,
  totalAvailable: number,
  gpuType: Option['gpuType'] = 'h100',
): Option =>
  ({
    enabled: true,
    machineType: 'virtual-machine',
    region,
    gpuType,
    connectionType: 'ethernet',
    gpuCount: 1,
    costPerHour,
    totalAvailable,
  }) as Option

test('keeps the shown choice while it is offered, even when full or no longer the cheapest', () => {
  const first = choose([option('us-east-1', 2, 4), option('us-central-1', 3, 4)], 'virtual-machine', {})
  expect(first?.chosen.option.region).toBe('us-east-1')
  const shown = first === undefined ? {} : selectionOf(first.chosen)
  const later = [option('us-east-1', 4, 0), option('us-central-1', 3, 4)]
  expect(choose(later, 'virtual-machine', {})?.chosen.option.region).toBe('us-central-1')
  expect(choose(later, 'virtual-machine', shown)?.chosen).toMatchObject({ option: { region: 'us-east-1' }, free: 0 })
  // No longer offered.
  expect(choose(later.slice(1), 'virtual-machine', shown)?.chosen.option.region).toBe('us-central-1')
})

test('offers GPUs first, cheapest first with their price, then the regions that have the chosen one', () => {
  const options = [
    option('us-east-1', 3, 4, 'h200'),
    option('us-east-1', 2, 4),
    option('us-central-1', 1.5, 4),
    option('us-central-1', 9, 0, 'b200'),
  ]
  const first = choose(options, 'virtual-machine', {})
  expect(first?.chosen.option).toMatchObject({ gpuType: 'h100', region: 'us-central-1' })
  expect(first?.gpus.map(({ label, detail, disabled }) => [label, detail, disabled])).toEqual([
    ['H100', 'from $1.50/hr\n8 GPUs free', false],
    ['H200', 'from $3.00/hr\n4 GPUs free', false],
    ['B200', 'from $9.00/hr\nnone free', true],
  ])
  const other = choose(options, 'virtual-machine', { gpu: 'h200', region: 'us-central-1' })
  expect(other?.chosen.option).toMatchObject({ gpuType: 'h200', region: 'us-east-1' })
  expect(other?.regions).toContainEqual({
    value: 'us-central-1',
    label: 'us-central-1',
    detail: 'not with this GPU',
    disabled: true,
  })
  // A link that names a region alone leads there.
  expect(choose(options, 'virtual-machine', { region: 'us-east-1' })?.chosen.option).toMatchObject({
    gpuType: 'h100',
    region: 'us-east-1',
  })
})
