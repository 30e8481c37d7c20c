/** Rentals: labels of kinds, and why a rental failed or ended. */
import { rentalOutcomes, type RentalOutcome } from '../contract/rental-outcome.ts'
import type { Simulation } from '../contract/shared.ts'
import type { IdleRule } from '../contract/workload.ts'
import type { RentalKind } from '../domain/rental.ts'
import { hourlyPrice } from './money.ts'
import { count } from './number.ts'

export const rentalKindLabels = {
  'virtual-machine': 'Virtual machine',
  'bare-metal': 'Bare metal',
  container: 'Container',
} as const satisfies Record<RentalKind, string>

/** The price without GPUs, and whether the rental runs that way. undefined: it cannot. */
export function withoutGpusText(rental: {
  readonly cpuOnly: boolean
  readonly cpuOnlyCostPerHourUsd: string | null
}): string | undefined {
  const { cpuOnly, cpuOnlyCostPerHourUsd: price } = rental
  return price === null ? undefined : `${hourlyPrice(price)}${cpuOnly ? ', as it runs now' : ''}`
}

const pluralKinds: Readonly<Record<RentalKind, string>> = {
  container: 'containers',
  'virtual-machine': 'virtual machines',
  'bare-metal': 'bare metal',
}

/** `containers, virtual machines and bare metal` */
export function kindList(kinds: readonly RentalKind[]): string {
  const names = Object.entries(pluralKinds).flatMap(([kind, name]) =>
    kinds.includes(kind as RentalKind) ? [name] : [],
  )
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1) ?? ''}`
}

/** Short forms for flags and narrow columns. */
export const shortRentalKinds = {
  'virtual-machine': 'vm',
  'bare-metal': 'metal',
  container: 'container',
} as const satisfies Record<RentalKind, string>

export const simulationHints = {
  machine: 'Simulated: it is billed like a real machine, but nothing runs and you cannot log in.',
  gpus: 'Simulated GPUs: you can log in, but the GPUs do not exist.',
} as const satisfies Record<Simulation, string>

/** An agent that is newer than this program may report a reason that is unknown here. */
function outcomeOf(reason: string): { readonly sentence: string; readonly next?: string } | undefined {
  return reason in rentalOutcomes ? rentalOutcomes[reason as RentalOutcome] : undefined
}

export function rentalReasonSentence(reason: string): string {
  return outcomeOf(reason)?.sentence ?? `The engine reports: ${reason.replaceAll('_', ' ')}.`
}

export function rentalReasonNextStep(reason: string): string {
  return outcomeOf(reason)?.next ?? 'Terminate it and rent again. If it happens again, contact the operator.'
}

interface IdleAction {
  readonly afterMinutes: number
  readonly action?: IdleRule['action'] | undefined
}

/** `stop after 30 minutes` */
export function idleText({ afterMinutes, action = 'stop' }: IdleAction): string {
  return `${action} after ${count(afterMinutes, 'minute')}`
}

/** null and undefined: the order names none. */
export function imageLabel(image: { name: string; tag?: string | null | undefined } | null | undefined): string {
  if (image === null || image === undefined) return "Host's default image"
  const { name, tag } = image
  return tag === null || tag === undefined ? name : `${name}:${tag}`
}
