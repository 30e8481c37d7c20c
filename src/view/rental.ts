/** Rentals: labels of kinds and states, and why a rental failed or ended. */
import { MINUTE_MS } from '../base/instant.ts'
import type { RentalStatus } from '../contract/rental.ts'
import type { Simulation } from '../contract/shared.ts'
import { rentalMoves, stateLimits, type RentalKind } from '../domain/rental.ts'
import type { Tone } from './tone.ts'

export const rentalKindLabels = {
  'virtual-machine': 'Virtual machine',
  'bare-metal': 'Bare metal',
  container: 'Container',
} as const satisfies Record<RentalKind, string>

/** As flags and narrow columns have them. */
export const shortRentalKinds = {
  'virtual-machine': 'vm',
  'bare-metal': 'metal',
  container: 'container',
} as const satisfies Record<RentalKind, string>

export const rentalTones = {
  Pending: 'info',
  Running: 'good',
  Unknown: 'warn',
  Failed: 'bad',
  Terminating: 'info',
  Terminated: 'plain',
} as const satisfies Record<RentalStatus, Tone>

export const rentalStatusHints = {
  Pending: 'The order is accepted and the machine is starting. Billing has not started.',
  Running: 'The machine is running and billed by the millisecond.',
  Unknown: 'The engine does not report this machine at the moment. Billing is paused.',
  Failed: 'The machine will not run. Billing has stopped.',
  Terminating: 'Billing has stopped. The engine is shutting the machine down.',
  Terminated: 'The machine and the data on its disk are gone.',
} as const satisfies Record<RentalStatus, string>

/** The states that can follow, and the time limit of this one. */
export function nextStatesHint(status: RentalStatus): string | undefined {
  const next: readonly RentalStatus[] = rentalMoves[status]
  if (next.length === 0) return undefined
  if (status === 'Failed') return 'Next: Terminating, when you terminate it. Until then it stays in the list.'
  const names = next.length === 1 ? next[0] : `${next.slice(0, -1).join(', ')} or ${next.at(-1)}`
  const limit = status in stateLimits ? stateLimits[status as keyof typeof stateLimits] : undefined
  if (limit === undefined) return `Next: ${names}.`
  const within = `${limit.ms / MINUTE_MS} minutes`
  return limit.past === 'fail'
    ? `Next: ${names}. Fails after ${within}.`
    : `Next: ${names}. Reported to the operator after ${within}.`
}

export const simulationHints = {
  machine: 'Simulated: you can rent it and see how it is billed, but no machine runs and nobody can log in.',
  gpus: 'Simulated GPUs: you can log in, but nothing is computed on them.',
} as const satisfies Record<Simulation, string>

const rentAgain = 'Terminate it and rent again.'
const rentElsewhere = 'Terminate it and rent again, if necessary in another region.'
const tellOperator = 'Terminate it, rent another machine, and report this to the operator.'
const fixImage = 'Terminate it, correct the image and rent again.'

/** Why a rental failed or ended, and the next step where there is one. */
const reasons: Readonly<Record<string, readonly [sentence: string, next?: string]>> = {
  customer_request: ['Terminated on request.'],
  auto_terminate: ['Its scheduled end was reached.'],
  term_expired: ['Its reserved term ended.'],
  balance_empty: ['The balance ran out.', 'Add money before you rent again.'],
  spending_limit: ['It reached its spending limit.'],
  start_timed_out: ['It did not start in time.', rentElsewhere],
  machine_lost: ['Its engine lost the machine.', rentAgain],
  no_capacity: ['No machine was available after all.', 'Terminate it, then try another region, size or GPU.'],
  teardown_stuck: ['The engine has not shut it down yet.', 'Nothing is charged. The operator has been notified.'],
  image_not_found: ['The image was not found.', fixImage],
  image_refused: ['The image was rejected.', fixImage],
  image_invalid: ['The image is not valid.', fixImage],
  image_too_large: ['The image is larger than the disk of the machine.', fixImage],
  image_without_command: ['The image has no command to run.', fixImage],
  registry_refused: ['The image registry denied access.', fixImage],
  process_exited: ['Its command exited, which ends the container.', 'Check its logs, then rent again.'],
  out_of_memory: ['It ran out of memory.', 'Rent a machine with more memory.'],
  disk_share_exceeded: ['It used more disk space than it has.', 'Rent a machine with more disk space.'],
  powered_off: ['It was powered off from the inside.', rentAgain],
  crashed: ['Its operating system crashed.', rentAgain],
  boot_timed_out: ['It did not boot in time.', rentAgain],
  boot_failed: ['It could not boot.', rentElsewhere],
  vanished: ['It was removed from its host.', tellOperator],
  removed: ['It was removed from its host.', tellOperator],
  unreadable: ['Its host lost its record of the machine.', tellOperator],
  gpu_missing: ['The GPU is missing from its host.', tellOperator],
  gpu_unavailable: ['The GPU of its host cannot be used.', tellOperator],
  gpu_passthrough_unavailable: ['Its host cannot pass the GPU to a virtual machine.', tellOperator],
  bad_base_image: ['Its host could not use the base image.', tellOperator],
  firmware_missing: ['Its host has no firmware for virtual machines.', tellOperator],
  hardware_differs: ['The hardware does not match the offer.', tellOperator],
  not_clean: ['The host was not clean for a new tenant.', tellOperator],
}

/** An unknown reason is shown as it is. */
export function rentalReasonSentence(reason: string): string {
  return reasons[reason]?.[0] ?? `The engine reports: ${reason.replaceAll('_', ' ')}.`
}

export function rentalReasonNextStep(reason: string): string {
  return reasons[reason]?.[1] ?? 'Terminate it and rent again. If it happens again, contact the operator.'
}
