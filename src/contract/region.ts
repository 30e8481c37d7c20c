/** Regions. */
import { z } from 'zod'
import { bareMetalOnlyRegions, regions, virtualMachineRegions } from './choices.ts'

export const region = z.enum(regions)
export type Region = z.infer<typeof region>

export const virtualMachineRegion = z.enum(virtualMachineRegions)
export const bareMetalRegion = z.enum(['us-central-1', ...bareMetalOnlyRegions])
export const storageRegion = z.enum([...virtualMachineRegions, ...bareMetalOnlyRegions])
