/** Region values, in the order of the interface. */
import { z } from 'zod'

const virtualMachineRegions = [
  'us-central-1',
  'us-central-2',
  'eu-north-2',
  'eu-west-2',
  'eu-north-4',
  'eu-north-5',
  'us-east-1',
  'us-east-2',
  'ca-east-3',
  'eu-north-6',
  'eu-north-7',
  'eu-north-8',
  'ca-west-1',
  'ca-east-1',
  'us-central-3',
  'us-southeast-1',
  'me-central-1',
  'ca-east-2',
  'eu-west-1',
  'us-southeast-2',
  'jp-east-1',
  'mock-region',
] as const

const bareMetalOnlyRegions = [
  'uk-central-3',
  'uk-southeast-3',
  'eu-southwest-3',
  'eu-southwest-3-1',
  'eu-west-3',
  'eu-west-4',
] as const

export const region = z.enum([...virtualMachineRegions, ...bareMetalOnlyRegions, 'private-cloud'])
export type Region = z.infer<typeof region>

export const virtualMachineRegion = z.enum(virtualMachineRegions)
export const bareMetalRegion = z.enum(['us-central-1', ...bareMetalOnlyRegions])
export const storageRegion = z.enum([...virtualMachineRegions, ...bareMetalOnlyRegions])
