/** A server's side of one worker: it looks up keys, and lends money, requests per minute and concurrent requests. */
import type { Socket } from 'node:net'
import type { Logger } from 'pino'
import { within } from '../../base/within.ts'
import type { Treasury } from '../../domain/purse.ts'
import type { GatewayPlaces } from '../../gateway/dispatch/places.ts'
import type { Meter } from '../../gateway/money/meter.ts'
import type { Authenticator } from '../http/authenticate.ts'
import { lendSlice, type RateLimiter } from '../http/rate-limit.ts'
import type { Channel } from './channel.ts'
import type { ServerFunctions, WorkerFunctions } from './messages.ts'

/** A worker that does not answer in this time has nothing to return. */
const RECALL_MS = 1_000

export interface WorkerServer {
  readonly meter: Meter
  readonly treasury: Pick<Treasury, 'settle'>
  readonly rates: RateLimiter
  readonly places: GatewayPlaces
  readonly authenticator: Authenticator
  /** A connection that a worker does not serve. */
  readonly takeBack: (socket: Socket, bytes: Buffer) => void
}

interface OneWorker {
  readonly index: number
  readonly call: Channel<WorkerFunctions>['call']
  readonly log: Logger
}

export interface Loans {
  readonly functions: Omit<ServerFunctions, 'connectionsLeft' | 'stats'>
  /** The worker has exited and everything is settled: the server has back what it lent. */
  close(): void
}

export function openLoans(server: WorkerServer, { index, call, log }: OneWorker): Loans {
  const { meter, rates, places, authenticator } = server
  const inTime = <Answer>(answer: Promise<Answer>): Promise<Answer> =>
    within(RECALL_MS, answer, 'the worker did not answer in time')
  const money = meter.loans.open(
    async (owner) => inTime(call('giveUpMoney', owner)).catch(() => undefined),
    async (accountId) =>
      inTime(call('recallMoney', accountId)).catch((error: unknown) =>
        log.warn({ err: error, worker: index + 1 }, 'a worker did not return its money'),
      ),
  )
  const lent = places.borrower(async (accountId) => inTime(call('giveUpPlaces', accountId)).catch(() => 0))
  return {
    functions: {
      introduce: (authorization) => authenticator.inferenceCaller(authorization),
      topUp: (owner, amounts) => money.topUp(owner, amounts),
      settle: (settlement) => money.settle(settlement),
      giveBack: (holdKey, amount) => money.giveBack(holdKey, amount),
      renew: (holdKeys) => money.renew(holdKeys),
      readPurses: (holdKeys) => money.readPurses(holdKeys),
      takeSlice: (request) => lendSlice(rates, request, index),
      lendPlaces: lent.lend,
      takeBackPlaces: lent.takeBack,
      keysUsed: (lastUsed) => authenticator.keysUsed(lastUsed),
    },
    close: () => {
      money.close()
      lent.close()
    },
  }
}
