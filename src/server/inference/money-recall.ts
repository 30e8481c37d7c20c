/**
 * Gateways spend money in memory that the ledger has given them. When a limit of an account is set or lowered, each of them
 * returns what it has, so that the limit holds as soon as the request that set it is answered. The servers ask each other
 * by notifications of the database. A server that may have missed one returns the money of all accounts as soon as it hears
 * the database again; until then it could not get any back, and answers requests from what it has.
 */
import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { App } from '../../app/app.ts'
import { GATEWAY_LIVES_MS } from '../../app/money/treasury.ts'
import { addMs, SECOND_MS } from '../../base/instant.ts'
import type { Meter } from '../../gateway/money/meter.ts'
import { notify } from '../../store/platform/listener.ts'
import { listPurseHolders } from '../../store/request/purse.ts'

const CHANNEL = 'berth_recall'
/** How long the others may take. One that is cut off from the database does not answer. */
const ANSWER_MS = 3 * SECOND_MS

export interface Recalls {
  readonly recall: NonNullable<App['recallMoney']>
  close(): void
}

export function openRecalls(options: {
  readonly app: Pick<App, 'database' | 'clock'>
  readonly gatewayId: string
  readonly meter: Pick<Meter, 'loans'>
  readonly log: Logger
}): Recalls {
  const { app, gatewayId, meter, log } = options
  /** Calls of this server that others have not answered yet. */
  const waiting = new Map<string, (gateway: string) => void>()
  const send = (...words: string[]): Promise<void> => notify(app.database.pool, CHANNEL, [words.join(' ')])
  const answer = async (call: string, accountId: string): Promise<void> => {
    await meter.loans.returnMoney(accountId)
    await send('done', call, gatewayId)
  }
  const warn = (error: unknown): void => log.warn({ err: error }, 'could not return money of an account')
  const listener = app.database.notifications.listen({
    channel: CHANNEL,
    onNotification: (payload) => {
      const [kind, call = '', subject = ''] = payload.split(' ')
      if (kind === 'done') waiting.get(call)?.(subject)
      else if (!waiting.has(call)) answer(call, subject).catch(warn)
    },
    onGap: () => {},
    onResume: () => void meter.loans.returnMoney().catch(warn),
  })
  return {
    recall: async (accountId) => {
      const holders = await listPurseHolders(app.database.db, accountId, addMs(app.clock.now(), -GATEWAY_LIVES_MS))
      const others = new Set(holders.filter((id) => id !== gatewayId))
      const call = randomBytes(8).toString('hex')
      let timer: NodeJS.Timeout | undefined
      const answered = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, ANSWER_MS)
        waiting.set(call, (gateway) => {
          others.delete(gateway)
          if (others.size === 0) resolve()
        })
      })
      try {
        await Promise.all([send('recall', call, accountId), meter.loans.returnMoney(accountId)])
        if (others.size > 0) await answered
        if (others.size > 0) log.warn({ accountId, gateways: [...others] }, 'gateways did not return money in time')
      } finally {
        clearTimeout(timer)
        waiting.delete(call)
      }
    },
    close: () => listener.close(),
  }
}
