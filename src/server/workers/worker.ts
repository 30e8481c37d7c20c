/**
 * A worker: the fast path for chats in a process of its own, on a core of its own. It has no database connection. Keys,
 * money, rates and models come from its server over a channel; what it cannot answer from memory goes back there with
 * its connection. Its finished requests are in its own journal before a client sees their end.
 */
import type { Socket } from 'node:net'
import { systemClock } from '../../base/instant.ts'
import { makeLineLimit } from '../../base/net/line-limit.ts'
import { Metrics } from '../../base/metrics.ts'
import { guardedLookup } from '../../base/net/outbound.ts'
import { BodyBudget } from '../../domain/body-budget.ts'
import { makeDispatcher } from '../../gateway/dispatch/dispatch.ts'
import { makeFastPath } from '../../gateway/fast-path/fast-path.ts'
import { watchRequests } from '../../gateway/gateway-metrics.ts'
import { Gateway } from '../../gateway/gateway.ts'
import { Journal } from '../../gateway/journal/journal.ts'
import { makeMeter } from '../../gateway/money/meter.ts'
import { BorrowedPlaces } from '../../gateway/dispatch/places.ts'
import { inferencePages } from '../inference/answer-inference.ts'
import { untilQuiet } from '../http/connections.ts'
import { openDataFolder } from '../data/data-folder.ts'
import { watchGateway } from '../inference/gateway-gauges.ts'
import { openLog } from '../log.ts'
import { readPortHost } from '../ports/port-domain.ts'
import { makeRateLimiter } from '../http/rate-limit.ts'
import type { Channel } from './channel.ts'
import type { ServerFunctions, WorkerFunctions, WorkerStart } from './messages.ts'
import { makeWorkerKeys } from './worker-keys.ts'

/** Log lines for failures of one account at one deployment. */
const MAX_LINES_PER_MINUTE = 10
const REPORT_EVERY_MS = 1_000
const KEYS_USED_EVERY_MS = 5_000
const LEFT_WITHIN_MS = 50
/** The server answers within milliseconds; it may wait for the database itself. */
const SLICE_TIMEOUT_MS = 5_000

type Server = Channel<ServerFunctions>

export interface RunningWorker extends Omit<WorkerFunctions, 'start'> {
  take(socket: Socket, bytes: Buffer): void
}

export async function startWorker(server: Server, options: WorkerStart): Promise<RunningWorker> {
  const log = openLog(options.logLevel)
  const clock = systemClock
  const metrics = new Metrics()
  // Held by no other process: the server settles what a killed worker has left there.
  const folder = await openDataFolder(options.journalDir)
  const journal = new Journal({ dir: folder.dir, log })
  const meter = makeMeter({ treasury: treasuryOf(server), journal, clock, log, seal: refuseToSeal })
  await meter.start()
  const dispatcher = makeDispatcher({ lookup: guardedLookup(true) })
  const rates = makeRateLimiter({
    takeSlice: (request) => server.call('takeSlice', request),
    clock,
    sliceTimeoutMs: SLICE_TIMEOUT_MS,
    mayCountAlone: false,
  })
  const places = new BorrowedPlaces({
    lend: (accountId, streams) => server.call('lendPlaces', accountId, streams),
    takeBack: (accountId, count) => server.note('takeBackPlaces', accountId, count),
  })
  const lines = makeLineLimit({ perMinute: MAX_LINES_PER_MINUTE })
  const gateway = new Gateway({
    dispatcher,
    meter,
    rates,
    clock,
    places,
    ended: watchRequests(metrics),
    warn: (failure) => {
      const line = lines.take(`${failure.accountId} ${failure.deployment ?? failure.model}`)
      if (line !== undefined) log.warn({ ...failure, ...line }, 'engine failed')
    },
  })
  const keys = makeWorkerKeys({ clock, ask: (authorization) => server.call('introduce', authorization) })
  const setCatalog: WorkerFunctions['setCatalog'] = (catalog) => {
    dispatcher.setCatalog(catalog)
    gateway.setCatalog(catalog)
  }
  setCatalog(options.catalog)
  watchGateway(metrics, meter, dispatcher)
  const left = countLeft((count) => server.note('connectionsLeft', count))
  let isDraining = false
  const fastPath = makeFastPath({
    gateway,
    bodies: new BodyBudget(options.bodyMemory),
    identifier: () => keys.identify,
    introduce: keys.introduce,
    handOver: (socket, bytes) => {
      socket.off('close', left)
      left()
      server.pass(socket, bytes)
    },
    isOther: (host) => readPortHost(options.portDomain, host) !== undefined,
    page: inferencePages('createChatCompletion'),
    now: () => clock.now(),
    isRetiring: () => isDraining,
  })
  const reporting = setInterval(() => {
    places.sweep(performance.now())
    server.note('stats', dispatcher.stats())
  }, REPORT_EVERY_MS)
  const telling = setInterval(() => {
    const used = keys.takeUsed()
    if (used.size > 0) server.note('keysUsed', used)
  }, KEYS_USED_EVERY_MS)

  return {
    take: (socket, bytes) => {
      socket.once('close', left)
      socket.unshift(bytes)
      fastPath.take(socket)
    },
    setCatalog,
    forgetKeys: keys.forget,
    keysAreFresh: keys.fresh,
    giveUpMoney: async (owner) => meter.giveUpFree(owner),
    recallMoney: (accountId) => meter.loans.returnMoney(accountId),
    giveUpRate: async (subject, minute) => rates.giveUp(subject, minute),
    giveUpPlaces: async (accountId) => places.giveUp(accountId),
    costsOf: async (requestIds) =>
      new Map(
        requestIds.flatMap((id) => {
          const cost = meter.costOf(id)
          return cost === undefined ? [] : [[id, cost] as const]
        }),
      ),
    metrics: () => metrics.text(),
    journalState: () => journal.state(),
    startDraining: () => {
      isDraining = true
    },
    close: async (finishMs) => {
      const until = performance.now() + finishMs
      if (isDraining) await untilQuiet(() => fastPath.isBusy(), until - finishMs / 2)
      let late: NodeJS.Timeout | undefined
      const isLate = new Promise((resolve) => (late = setTimeout(resolve, until - performance.now())))
      await Promise.race([fastPath.close(), isLate])
      clearTimeout(late)
      fastPath.destroy()
      clearInterval(reporting)
      clearInterval(telling)
      server.note('keysUsed', keys.takeUsed())
      await dispatcher.close()
      await meter.close()
      await journal.close()
      await folder.release()
    },
  }
}

function treasuryOf(server: Server): Parameters<typeof makeMeter>[0]['treasury'] {
  return {
    topUp: (owner, amounts) => server.call('topUp', owner, amounts),
    settle: (settlement) => server.call('settle', settlement),
    giveBack: (holdKey, amount) => server.call('giveBack', holdKey, amount),
    renew: (holdKeys) => server.call('renew', holdKeys),
    readPurses: (holdKeys) => server.call('readPurses', holdKeys),
    // The server registers for all of its workers, and settles what an earlier run has left.
    registerGateway: async () => {},
    beat: async () => {},
    releaseOwnPurses: async () => {},
  }
}

/** Accounts that keep bodies are served by the server itself, which has the secret key. */
function refuseToSeal(): never {
  throw new Error('a worker has no secret key')
}

/** Counts connections that are no longer here, and tells their number soon. */
function countLeft(tell: (count: number) => void): () => void {
  let count = 0
  let timer: NodeJS.Timeout | undefined
  return () => {
    count += 1
    timer ??= setTimeout(() => {
      timer = undefined
      tell(count)
    }, LEFT_WITHIN_MS)
  }
}
