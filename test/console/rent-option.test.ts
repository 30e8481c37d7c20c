/** Which order options can be combined, without a browser. */
import { expect, test } from 'vitest'
import { choose, selectionOf, type Option } from '../../console/pages/rent/option.ts'

const option = (region: Option['region'], costPerHour: number, totalAvailable: number): Option =>
  ({
    enabled: true,
    machineType: 'virtual-machine',
    region,
    gpuType: 'h100',
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
