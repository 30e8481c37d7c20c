/**
 * A worker: the fast path for chats in a process of its own, on a core of its own. It has no database connection. Keys,
 * money, rates and models come from its server over a channel; what it cannot answer from memory goes back there with
 * its connection. Its finished requests are in its own journal before a client sees their end.
 */
import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { systemClock } from '../../base/instant.ts'
import { Metrics } from '../../base/metrics.ts'
import { guardedLookup } from '../../base/net/outbound.ts'
import { BodyBudget } from '../../domain/body-budget.ts'
import { makeDispatcher, type RunningDispatcher } from '../../gateway/dispatch/dispatch.ts'
import { makeFastPath } from '../../gateway/fast-path/fast-path.ts'
import { watchRequests } from '../../gateway/gateway-metrics.ts'
import { Gateway } from '../../gateway/gateway.ts'
import { Journal } from '../../gateway/journal/journal.ts'
import { makeMeter } from '../../gateway/money/meter.ts'
import { BorrowedPlaces } from '../../gateway/dispatch/places.ts'
import { inferencePages } from '../inference/answer-inference.ts'
import { untilQuiet } from '../http/connections.ts'
import { openDataFolder } from '../data/data-folder.ts'
import { logFailures } from '../inference/failure-log.ts'
import { watchGateway } from '../inference/gateway-gauges.ts'
import { openLog } from '../log.ts'
import { readPortHost } from '../ports/port-domain.ts'
import { makeRateLimiter } from '../http/rate-limit.ts'
import type { Channel } from './channel.ts'
import type { ServerFunctions, WorkerFunctions, WorkerStart } from './messages.ts'
import { makeWorkerKeys, type WorkerKeys } from './worker-keys.ts'

const REPORT_EVERY_MS = 1_000
const KEYS_USED_EVERY_MS = 5_000
const LEFT_WITHIN_MS = 50
/** The server answers within milliseconds; it may wait for the database itself. */
const SLICE_TIMEOUT_MS = 5_000

const clock = systemClock

type Server = Channel<ServerFunctions>

export interface RunningWorker extends Omit<WorkerFunctions, 'start'> {
  take(socket: Socket, bytes: Buffer): void
}

export async function startWorker(server: Server, options: WorkerStart): Promise<RunningWorker> {
  const metrics = new Metrics()
  const parts = await openWorkerGateway(server, options, metrics)
  const { gateway, dispatcher, meter, rates, places, journal } = parts
  const keys = makeWorkerKeys({ clock, ask: (authorization) => server.call('introduce', authorization) })
  const leftCounter = countLeft((count) => server.note('connectionsLeft', count))
  let isDraining = false
  const fastPath = makeFastPath({
    gateway,
    bodies: new BodyBudget(options.bodyMemory),
    identifier: () => keys.identify,
    introduce: keys.introduce,
    handOver: (socket, bytes) => {
      socket.off('close', leftCounter)
      leftCounter()
      server.pass(socket, bytes)
    },
    isOther: (host) => readPortHost(options.portDomain, host) !== undefined,
    page: inferencePages('createChatCompletion'),
    now: () => clock.now(),
    isRetiring: () => isDraining,
  })
  const reports = startReports(server, { dispatcher, places, keys })
  return {
    take: (socket, bytes) => {
      socket.once('close', leftCounter)
      socket.unshift(bytes)
      fastPath.take(socket)
    },
    setCatalog: parts.setCatalog,
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
      await Promise.race([fastPath.close(), delay(until - performance.now(), undefined, { ref: false })])
      fastPath.destroy()
      reports.stop()
      await parts.close()
    },
  }
}

/** The gateway of a worker, with what its server lends it. */
async function openWorkerGateway(server: Server, options: WorkerStart, metrics: Metrics) {
  const log = openLog(options.logLevel)
  // Held by no other process: the server settles what a killed worker has left there.
  const folder = await openDataFolder(options.journalDir)
  const journal = new Journal({ dir: folder.dir, log })
  const meter = makeMeter({ treasury: treasuryOf(server), journal, clock, log, seal: refuseToSeal })
  await meter.start()
  const dispatcher = makeDispatcher({ lookup: guardedLookup(true), learns: false, firstTokenMs: options.firstTokenMs })
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
  const ended = watchRequests(metrics)
  const gateway = new Gateway({ dispatcher, meter, rates, clock, places, ended, warn: logFailures(log) })
  const setCatalog: WorkerFunctions['setCatalog'] = (catalog) => {
    dispatcher.setCatalog(catalog)
    gateway.setCatalog(catalog)
  }
  setCatalog(options.catalog)
  watchGateway(metrics, meter, dispatcher)
  const close = async (): Promise<void> => {
    await dispatcher.close()
    await meter.close()
    await journal.close()
    await folder.release()
  }
  return { gateway, dispatcher, meter, rates, places, journal, setCatalog, close }
}

/** Tells the server how busy this worker is, and which keys were used. */
function startReports(
  server: Server,
  { dispatcher, places, keys }: { dispatcher: RunningDispatcher; places: BorrowedPlaces; keys: WorkerKeys },
): { stop: () => void } {
  const load = setInterval(() => {
    places.sweep(performance.now())
    server.note('stats', dispatcher.stats())
  }, REPORT_EVERY_MS)
  const usedKeys = setInterval(() => {
    const used = keys.takeUsed()
    if (used.size > 0) server.note('keysUsed', used)
  }, KEYS_USED_EVERY_MS)
  return {
    stop: () => {
      clearInterval(load)
      clearInterval(usedKeys)
      server.note('keysUsed', keys.takeUsed())
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
