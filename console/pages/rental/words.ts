/** What states and reasons of rentals mean, in sentences, and what to do about them. */
import { MINUTE_MS } from '../../../src/base/instant.ts'
import type { RentalStatus } from '../../../src/contract/rental.ts'
import { rentalMoves, stateLimits, type RentalKind } from '../../../src/domain/rental.ts'

export const kindWords = {
  'virtual-machine': 'Virtual machine',
  'bare-metal': 'Bare metal',
  container: 'Container',
} as const satisfies Record<RentalKind, string>

const meanings = {
  Pending: 'It is accepted and starts. Nothing is charged yet.',
  Running: 'It runs and is charged by the millisecond.',
  Unknown: 'Its engine does not show it at the moment. The bill stands still.',
  Failed: 'It will not run. Nothing is charged any more.',
  Terminating: 'Its end was asked for and the bill has stopped. The engine is letting go.',
  Terminated: 'It is gone, and so is what was on its disk.',
} as const satisfies Record<RentalStatus, string>

export function meaningOf(status: RentalStatus): string {
  return meanings[status]
}

/** What may follow, from the table of moves, and how long the state may last at most. */
export function nextOf(status: RentalStatus): string | undefined {
  const next: readonly RentalStatus[] = rentalMoves[status]
  if (next.length === 0) return undefined
  if (status === 'Failed') return 'Next: Terminating, when you ask for it. Until then it stays in the list.'
  const names = next.length === 1 ? next[0] : `${next.slice(0, -1).join(', ')} or ${next.at(-1)}`
  const limit = status in stateLimits ? stateLimits[status as keyof typeof stateLimits] : undefined
  if (limit === undefined) return `Next: ${names}.`
  const within = `${limit.ms / MINUTE_MS} minutes`
  return limit.past === 'fail'
    ? `Next: ${names}. After ${within} it counts as failed.`
    : `Next: ${names}. After ${within} it is flagged for the operator.`
}

const tellOperator = 'Terminate it and tell the operator; another machine may do.'
const fixImage = 'Terminate it, correct the image and rent again.'

/** By the word that programs read: what happened, and what to do. */
const reasons: Readonly<Record<string, readonly [what: string, todo?: string]>> = {
  customer_request: ['Its end was asked for.'],
  auto_terminate: ['The time that was set for its end had come.'],
  term_expired: ['Its reserved term was over.'],
  balance_empty: ['The balance was used up.', 'Add money before you rent again.'],
  spending_limit: ['It had cost as much as its spending limit allowed.'],
  start_timed_out: ['It did not start in time.', 'Terminate it and rent again, if need be elsewhere.'],
  machine_lost: ['Its engine has lost it.', 'Terminate it and rent again.'],
  no_capacity: ['There was no machine for it after all.', 'Terminate it, then try another region, size or GPU.'],
  teardown_stuck: ['The engine has not let go of it yet.', 'Nothing is charged. The operator can see it.'],
  image_not_found: ['The image cannot be found.', fixImage],
  image_refused: ['The image was refused.', fixImage],
  image_invalid: ['The image is not a valid one.', fixImage],
  image_too_large: ['The image is larger than its share of the disk.', fixImage],
  image_without_command: ['The image has no command to run.', fixImage],
  registry_refused: ['The registry of the image did not give it.', fixImage],
  process_exited: ['Its command has ended, and with it the container.', 'Its logs may say why. Rent again when ready.'],
  out_of_memory: ['It used more memory than its share.', 'Rent one with more memory.'],
  disk_share_exceeded: ['It used more disk than its share.', 'Rent one with more disk.'],
  powered_off: ['It was switched off from the inside.', 'Terminate it and rent again.'],
  crashed: ['Its system crashed.', 'Terminate it and rent again.'],
  boot_timed_out: ['It did not boot in time.', 'Terminate it and rent again.'],
  boot_failed: ['It could not boot.', 'Terminate it and rent again, if need be elsewhere.'],
  vanished: ['It was removed on its host.', tellOperator],
  removed: ['It was removed on its host.', tellOperator],
  unreadable: ['Its host has lost what it knew of it.', tellOperator],
  gpu_missing: ['The host does not have the GPU that it sells.', tellOperator],
  gpu_unavailable: ['The GPU of the host cannot be used.', tellOperator],
  gpu_passthrough_unavailable: ['The host cannot hand its GPU to a virtual machine.', tellOperator],
  bad_base_image: ['The host could not use its base image.', tellOperator],
  firmware_missing: ['The host lacks firmware for virtual machines.', tellOperator],
  hardware_differs: ['The machine was not what it should be.', tellOperator],
  not_clean: ['The machine was not clean for a new tenant.', tellOperator],
}

/** A word that we do not know yet is shown as it is. */
export function reasonSentence(reason: string): string {
  return reasons[reason]?.[0] ?? `The engine says: ${reason.replaceAll('_', ' ')}.`
}

export function reasonTodo(reason: string): string {
  return reasons[reason]?.[1] ?? 'Terminate it and rent again; if it happens again, tell the operator.'
}
