/** `berth stop`, `start` and `reboot`, for machines of every kind that can. */
import { MINUTE_MS } from '../../base/instant.ts'
import { pause } from '../../client/pause.ts'
import { hourlyPrice } from '../../view/money.ts'
import { displayName, type OwnMachine } from '../../view/own-machine.ts'
import { ownMachine, readDetail } from './own-machine.ts'
import { act } from '../kit/row.ts'
import type { Row } from '../kit/row-type.ts'

/** A machine that shuts down by itself has ten minutes; its host reports a little later. */
const MAX_STOP_MS = 12 * MINUTE_MS
const POLL_MS = 500

interface StopOptions {
  readonly wait: boolean
}

export const rows: readonly Row[] = [
  act<'stopRental', StopOptions, OwnMachine>('stop', 'stopRental', 'stop a machine and keep its disk', {
    target: ownMachine,
    options: { '--no-wait': 'do not wait until it is off' },
    follow: async (answer, { client, screen, options, target }) => {
      if (!options.wait || answer.state !== 'Stopping') return answer
      screen.remark(`${displayName(target)} is shutting down. You pay the full price until it is off.`)
      const limit = AbortSignal.timeout(MAX_STOP_MS)
      for (let reply = answer; ; await pause(POLL_MS, limit)) {
        reply = await readDetail(client, target)
        if (reply.state !== 'Stopping' || limit.aborted) return reply
      }
    },
    confirm: async ({ client, target }) => {
      const { stoppedCostPerHourUsd: price } = await readDetail(client, target)
      // The server explains why it cannot be stopped.
      if (price === null) return undefined
      return `Stop ${displayName(target)}? Its disk is kept for ${hourlyPrice(price)}. Its GPUs are released and may be rented by others.`
    },
    done: ({ state, stoppedCostPerHourUsd: price }, { target }) => {
      const cost = price === null ? '' : ` Stopped, its disk costs ${hourlyPrice(price)}.`
      return state === 'Stopped'
        ? `${displayName(target)} is stopped.${cost}`
        : `${displayName(target)} is shutting down. You pay the full price until it is off.${cost}`
    },
    notes: 'To start it again: berth start NAME. To delete its disk: berth terminate NAME.',
    examples: ['berth stop web', 'berth stop web --yes', 'berth stop web --yes --no-wait'],
  }),
  act<'startRental', unknown, OwnMachine>('start', 'startRental', 'start a stopped machine on its disk', {
    target: ownMachine,
    flags: {
      ifNoGpu: {
        text: '--if-no-gpu <what>  if its host has too few free GPUs: fail, wait for them, start without GPUs to fetch files, or move to another machine',
        shortNames: { cpuOnly: 'cpu-only' },
      },
    },
    done: ({ state, startRequestedAt, pricePerHourUsd, cpuOnly, cpuOnlyCostPerHourUsd, movesTo }, { target }) => {
      if (startRequestedAt !== null)
        return `${displayName(target)} starts when its host has enough free GPUs. To stop waiting: berth stop ${target.id}`
      if (movesTo !== null)
        return `${displayName(target)} moves to ${movesTo}: its disk is copied there first. It costs ${hourlyPrice(pricePerHourUsd)} once it runs.`
      const without = cpuOnly ? ' without its GPUs' : ''
      const price = cpuOnly ? cpuOnlyCostPerHourUsd : pricePerHourUsd
      return state === 'Running' || price === null
        ? `${displayName(target)} is running${without}.`
        : `${displayName(target)} is starting${without}. It costs ${hourlyPrice(price)} once it runs.`
    },
    notes: 'To start it with its GPUs again, stop it first.',
    examples: [
      'berth start web',
      'berth start web --if-no-gpu wait',
      'berth start web --if-no-gpu cpu-only',
      'berth start web --if-no-gpu move',
    ],
  }),
  act<'rebootRental', unknown, OwnMachine>('reboot', 'rebootRental', 'reboot a running machine', {
    target: ownMachine,
    confirm: ({ target }) => `Reboot ${displayName(target)}? Its programs end. Its disk, GPUs and addresses stay.`,
    done: (_, { target }) => `${displayName(target)} is rebooting.`,
    examples: ['berth reboot web'],
  }),
]
